"""Lets a trained model know items that nobody has had, without training: by like items, or by their contents."""

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
from recbole_bert4rec.recommend.torch_backend import checkpoint_model
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
    """Let a trained model know new items, so that it recommends them and reads them in histories; nothing is trained.

    The scores of all other items stay as they are. A new item counts as never seen in training, and has no features.

    Args:
        path: of a checkpoint, which may be read already.
        neighbours: for each new item, known items that it is like or that people have beside it. It gets the mean of
            their embeddings and biases, and of what followed them and what they followed, and so about the mean of
            their scores, but for ``seen_bias``. An item with an empty list gets the mean of all items.
        vectors: for each new item, what it is, as in the files of ``item_vectors``; for a model without those, its
            embedding, of ``hidden_size`` numbers. Its bias is the mean of all items.
        output: where to write a checkpoint that knows the items too, for the commands, the service and
            ``warm_start``; ``--resume`` refuses it. Default: nothing is written.
        device: see :func:`~recbole_bert4rec.load`.
        model: see :func:`~recbole_bert4rec.load`.

    Returns:
        The model with the new items; they stand after the others, in the order in which they are given.

    Raises:
        UserError: an argument has a value that it cannot have, or the file is refused as by
            :func:`~recbole_bert4rec.load`.
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
    told = weights[name][-1].repeat(len(vectors), 1)  # of columns that no file gave, nothing is known
    width = int(weights[WIDTH]) if name == VECTORS else told.shape[1]
    for row, (item, vector) in zip(told, vectors.items(), strict=True):
        numbers = torch.tensor(np.asarray(vector, np.float32), dtype=told.dtype)
        if numbers.shape != (width,) or not numbers.isfinite().all():
            wanted = f"{width} finite numbers ({told.dtype}), as in the training, but is {short(vector)}"
            raise UserError(f"the vector of {short(item)} must be {wanted}; or give the item `neighbours` (--like)")
        row[:width] = numbers
    state = with_new_items(state, new.tolist(), (owners, known), told)
    grown = checkpoint_model(path, state, device, model=model)
    if output is not None:
        state["optimizer"] = {"state": {}, "param_groups": []}  # resuming.py refuses a training without it
        checkpoints.write(output, state)
    return grown


def with_cold_items(state: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a checkpoint that knows the items, too, that stood in ``item_vectors`` alone."""
    cold, nobody = state.pop("cold_items", None), torch.empty(0, dtype=torch.int64)
    return state if cold is None else with_new_items(state, cold["tokens"], (nobody, nobody), cold["vectors"])


def with_new_items(state: dict[str, Any], tokens: Sequence[str], beside: Neighbours, told: Tensor) -> dict[str, Any]:
    """Return the entries of a checkpoint that knows more items; ``told`` are contents or embeddings of the last V.

    *Shape:* (P,) each, (V, D)
    """
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
    last = slice(len(all_tokens) - len(told), len(all_tokens))
    grown[_described_by(weights)][last] = told
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
