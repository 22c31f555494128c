"""Add items without interactions to a trained model, without training: by similar items, or by their contents."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array, vstack
from torch import Tensor

from recbole_bert4rec import checkpoints
from recbole_bert4rec.checkpoints import Opened
from recbole_bert4rec.core.growth import (
    CONTENTS,
    FEATURE_VALUES,
    ITEM_EMBEDDING,
    VECTORS,
    Neighbours,
    encoder_rows,
    rows_for,
)
from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.core.ranker import ITEM_DIGEST, digest_of_items, entry_of
from recbole_bert4rec.recommend.histories import lists_by_user
from recbole_bert4rec.recommend.ids import Ids, Items, as_texts
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.recommend.torch_backend import model_of_checkpoint
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short

COUNTS, WIDTH = f"{CONTENTS}counts", f"{CONTENTS}n_of_files"
Vector = Sequence[float] | NDArray[np.float32] | Tensor


def append_items(
    path: str | os.PathLike[str] | Opened,
    neighbours: Mapping[Any, Ids] | None = None,
    vectors: Mapping[Any, Vector] | None = None,
    output: str | os.PathLike[str] | None = None,
    device: torch.device | str | None = None,
    model: str | type | None = None,
) -> Recommender:
    """Add new items to a trained model, so that it recommends them and reads them in histories; nothing is trained.

    The scores of all other items stay as they are. A new item counts as never seen in training, and has no features.

    Args:
        path: of a checkpoint, or an opened one.
        neighbours: for each new item, known items that are similar or that people have beside it. It gets the mean of
            their embeddings, biases and memory, and so about the mean of their scores, without ``seen_bias``. An item
            with an empty list gets the mean of all items.
        vectors: for each new item, its vector as in the files of ``item_vectors``; for a model without these files,
            its embedding, of ``hidden_size`` numbers. Its bias is the mean of all items.
        output: where to write a checkpoint with the new items, for the commands, the service and ``warm_start``;
            ``--resume`` refuses it. Default: nothing is written.
        device: see :func:`~recbole_bert4rec.load`.
        model: see :func:`~recbole_bert4rec.load`.

    Returns:
        The model with the new items, which follow the others in the given order.

    Raises:
        UserError: an argument has a wrong value, or :func:`~recbole_bert4rec.load` would refuse the file.
    """
    named, lists = lists_by_user(neighbours or {}, "neighbours")
    vectors = vectors or {}
    path, state = path if isinstance(path, Opened) else Opened(os.fspath(path), checkpoints.read(path))
    state = with_cold_items(state)
    old, weights, new = Items(state["item_tokens"]), state["state_dict"], as_texts([*named, *vectors])
    if not len(new):
        raise UserError("there is no new item; give `neighbours` (--item) or `vectors` (--vectors)")
    if "" in new:
        raise UserError("a new item has an empty id")
    taken = (old.ids_of(new) != PADDING) | pd.Index(new).duplicated()
    if taken.any():
        raise UserError(f"new item {short(new[taken.argmax()])} is known to the model already, or given twice")
    known = torch.from_numpy(old.known(list(chain(*lists)), "`neighbours` (--like)"))
    owners = torch.repeat_interleave(torch.tensor([len(some) for some in lists], dtype=torch.int64))
    name = _described_by(weights)
    contents = weights[name][-1].repeat(len(vectors), 1)  # nothing is known of columns that come from no file
    width = int(weights[WIDTH]) if name == VECTORS else contents.shape[1]
    for row, (item, vector) in zip(contents, vectors.items(), strict=True):
        numbers = torch.tensor(np.asarray(vector, np.float32), dtype=contents.dtype)
        if numbers.shape != (width,) or not numbers.isfinite().all():
            wanted = f"{width} finite numbers ({contents.dtype}), as in the training, but is {short(vector)}"
            raise UserError(f"the vector of {short(item)} must be {wanted}; or give the item `neighbours` (--like)")
        row[:width] = numbers
    state = with_new_items(state, new.tolist(), (owners, known), contents)
    grown = Recommender(*model_of_checkpoint(path, state, device, model=model))
    if output is not None:
        state["optimizer"] = {"state": {}, "param_groups": []}  # resuming.py refuses a training without it
        checkpoints.write(output, state)
    return grown


def with_cold_items(state: dict[str, Any]) -> dict[str, Any]:
    """Return a checkpoint's entries with the items that were in ``item_vectors`` alone."""
    cold, nobody = state.pop("cold_items", None), torch.empty(0, dtype=torch.int64)
    return state if cold is None else with_new_items(state, cold["tokens"], (nobody, nobody), cold["vectors"])


def with_new_items(
    state: dict[str, Any], tokens: Sequence[str], beside: Neighbours, contents: Tensor
) -> dict[str, Any]:
    """Return a checkpoint's entries with more items, the last V of which get ``contents`` (V, D), or embeddings."""
    weights, many, n_items = state["state_dict"], len(tokens), len(state["item_tokens"])
    all_tokens = [*state["item_tokens"], *tokens]
    source = F.pad(torch.arange(n_items), (0, many), value=PADDING)
    placed = n_items + beside[0], beside[1]
    grown = {**weights, **encoder_rows(weights, source, placed), ITEM_DIGEST: digest_of_items(all_tokens)}
    for name, values in weights.items():
        if name.startswith(FEATURE_VALUES):
            grown[name] = F.pad(values, (0, 0, 0, many))
        elif name in (VECTORS, COUNTS):
            rows = rows_for(values[:-1].float(), source, placed).to(values.dtype)
            grown[name] = torch.cat([rows, values[-1:]])
    last = slice(len(all_tokens) - len(contents), len(all_tokens))
    grown[_described_by(weights)][last] = contents
    if COUNTS in grown:
        grown[COUNTS][last] = 0
    grown_state = {**state, "state_dict": grown, "item_tokens": all_tokens}
    grown_state["item_counts"] = F.pad(state["item_counts"], (0, many))
    if memory := state.get("other_parameter", {}).get("memory"):
        old, (owners, known) = Memory.from_state(memory, n_items), (part.numpy() for part in beside)
        means = csr_array((1 / np.bincount(owners)[owners], (owners, known)), shape=(many, n_items))
        spread = vstack([eye_array(n_items), means], format="csr")
        table = spread @ old.transitions @ spread.T  # new items follow what their neighbours follow, and are followed
        table -= diags_array(table.diagonal())  # no item follows itself
        grown_state["other_parameter"] = {"memory": entry_of(replace(old, transitions=table))}
    return grown_state


def _described_by(weights: Mapping[str, Tensor]) -> str:
    """Return the name of the table that says what an item is: contents, or else embeddings."""
    return VECTORS if VECTORS in weights else ITEM_EMBEDDING
