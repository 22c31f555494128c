"""Lets a trained model know new items, without training and without the data set."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.core.growth import FEATURE_VALUES, ITEM_EMBEDDING, encoder_rows
from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.recommend.ids import Ids, Items, as_tokens, by_user
from recbole_bert4rec.recommend.load import recommender_of
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.errors import UserError, short

Vector = Sequence[float] | NDArray[np.float32] | Tensor


def append_items(
    path: str | os.PathLike[str],
    neighbours: Mapping[Any, Ids] | None = None,
    vectors: Mapping[Any, Vector] | None = None,
    output: str | os.PathLike[str] | None = None,
    device: torch.device | str | None = None,
    model: str | type | None = None,
) -> Recommender:
    """Let a trained model know new items, so that it recommends them and reads them in histories; nothing is trained.

    The scores of all other items stay as they are. A new item counts as never seen in training, and has no features.

    Args:
        path: of a checkpoint.
        neighbours: for each new item, known items that it is like or that people have beside it. It gets the mean of
            their embeddings and biases, and of what followed them and what they followed, and so about the mean of
            their scores, but for ``seen_bias``. An item with an empty list gets the mean of all items.
        vectors: for each new item, its embedding, of ``hidden_size`` numbers; its bias is the mean of all items.
        output: where to write a checkpoint that knows the items too, for the commands, the service and
            ``warm_start``; ``--resume`` refuses it. Default: nothing is written.
        device: see :func:`~recbole_bert4rec.load`.
        model: see :func:`~recbole_bert4rec.load`.

    Returns:
        The model with the new items; they stand after the others, in the order in which they are given.

    Raises:
        UserError: there is no new item; one is known, or given twice; a neighbour is not known; a vector has another
            length, or numbers that are not finite; or the file is refused as by :func:`~recbole_bert4rec.load`.
    """
    for argument, by_item in (("neighbours", neighbours), ("vectors", vectors)):
        if not (by_item is None or isinstance(by_item, Mapping)):
            raise UserError(f"`{argument}` must be a dictionary by new item, but is {short(by_item)}")
    state = checkpoint.read(path)
    old, weights = Items(state["item_tokens"]), state["state_dict"]
    names, lists = by_user(neighbours or {}, "neighbours")
    new_vectors = dict(vectors or {})
    new = as_tokens([*names, *new_vectors])
    _check_new(new, old)
    begin, many = len(old.tokens), len(new)
    known = torch.from_numpy(old.known(list(chain.from_iterable(lists)), "neighbours"))
    owners = torch.repeat_interleave(torch.arange(len(lists)), torch.tensor([len(some) for some in lists]).long())
    source = torch.cat([torch.arange(begin), torch.full((many,), PADDING)])
    with checkpoint.explain_misfit(path):
        grown = {**weights, **encoder_rows(weights, source, (begin + owners, known))}
        grown |= {
            name: torch.cat([values, values.new_zeros(many, values.shape[1])])
            for name, values in weights.items()
            if name.startswith(FEATURE_VALUES)
        }
    for row, (name, vector) in enumerate(new_vectors.items(), start=begin + len(lists)):
        grown[ITEM_EMBEDDING][row] = _embedding(name, vector, grown[ITEM_EMBEDDING].shape[1])
    state.pop("middle", None)
    state |= {
        "state_dict": grown,
        "item_tokens": [*state["item_tokens"], *new],
        "item_counts": torch.cat([state["item_counts"], state["item_counts"].new_zeros(many)]),
        "optimizer": {"state": {}, "param_groups": []},  # resuming.py refuses a training without it
    }
    memory = state.pop("other_parameter", {}).get("memory")
    grown_model = recommender_of(path, state, device, model=model)
    if memory:
        grown_model.ranker.memory = _grown(Memory.from_state(memory, begin), many, owners.numpy(), known.numpy())
    state["other_parameter"] = grown_model.ranker.other_parameter()
    if output is not None:
        checkpoint.write(output, state)
    return grown_model


def _grown(memory: Memory, many: int, owners: NDArray[np.int64], known: NDArray[np.int64]) -> Memory:
    """Let new items follow what their neighbours follow, and be followed by what follows these: the mean of each.

    Args:
        memory: of the N known items.
        many: new items.
        owners: the new item, from 0, of each neighbour. *Shape:* (P,)
        known: neighbours. *Shape:* (P,)
    """
    n_items = memory.transitions.shape[0]
    shares = np.concatenate([np.ones(n_items), 1 / np.bincount(owners)[owners]])
    rows, columns = (np.concatenate([np.arange(n_items), more]) for more in (n_items + owners, known))
    spread = csr_array((shares, (rows, columns)), shape=(n_items + many, n_items))
    grown = csr_array(spread @ memory.transitions @ spread.T)
    grown.setdiag(0)  # no item follows itself
    grown.eliminate_zeros()
    grown.sort_indices()
    grown.data = grown.data.astype(np.float16).astype(np.float32)  # as a checkpoint has it
    return replace(memory, transitions=grown)


def _check_new(new: NDArray[np.object_], old: Items) -> None:
    """Refuse a list of new items that is empty, or names one that is known or stands twice."""
    if not len(new):
        raise UserError("there is no new item; give `neighbours` or `vectors`")
    taken = {*old.tokens}
    for token in new:
        if token in taken:
            raise UserError(f"new item {short(token)} is known to the model already, or given twice")
        taken.add(token)


def _embedding(name: object, vector: Vector, size: int) -> Tensor:
    """Return a vector as an embedding; refuse one of another length, or with numbers that are not finite."""
    try:
        embedding = torch.as_tensor(vector, dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"the vector of {short(name)} must be {size} numbers, but is {short(vector)}") from error
    if embedding.shape != (size,) or not bool(embedding.isfinite().all()):
        raise UserError(
            f"the vector of {short(name)} must be {size} finite numbers (`hidden_size`), but is {short(vector)}"
        )
    return embedding
