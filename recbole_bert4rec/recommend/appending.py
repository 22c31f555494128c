"""Lets a trained model know new items, without training and without the data set."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recbole_bert4rec import checkpoints
from recbole_bert4rec.core.growth import ITEM_EMBEDDING, VECTORS
from recbole_bert4rec.recommend.growing import WIDTH, with_cold_items, with_new_items
from recbole_bert4rec.recommend.histories import lists_by_user
from recbole_bert4rec.recommend.ids import Ids, Items, as_texts
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.recommend.torch_backend import checkpoint_model
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
        vectors: for each new item, what it is, as in the files of ``item_vectors``; for a model without those, its
            embedding, of ``hidden_size`` numbers. Its bias is the mean of all items.
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
    state = checkpoints.read(path)
    with checkpoints.explain_misfit(path):
        state = with_cold_items(state)
    old, weights = Items(state["item_tokens"]), state["state_dict"]
    names, lists = lists_by_user(neighbours or {}, "neighbours")
    new_vectors = dict(vectors or {})
    new = as_texts([*names, *new_vectors])
    _check_new(new, old)
    known = torch.from_numpy(old.known(list(chain.from_iterable(lists)), "neighbours"))
    owners = torch.repeat_interleave(torch.arange(len(lists)), torch.tensor([len(some) for some in lists]).long())
    state["optimizer"] = {"state": {}, "param_groups": []}  # resuming.py refuses a training without it
    with checkpoints.explain_misfit(path):
        contents = _contents(weights, new_vectors) if VECTORS in weights else None
        state = with_new_items(state, new.tolist(), (owners, known), contents)
        if contents is None:
            embeddings = state["state_dict"][ITEM_EMBEDDING]
            for row, (name, vector) in enumerate(new_vectors.items(), start=len(old.tokens) + len(lists)):
                embeddings[row] = _numbers(name, vector, embeddings.shape[1], "hidden_size")
    grown_model = checkpoint_model(path, state, device, model=model)
    if output is not None:
        checkpoints.write(output, state)
    return grown_model


def _check_new(new: NDArray[np.object_], old: Items) -> None:
    """Refuse a list of new items that is empty, or names one that is known or stands twice."""
    if not len(new):
        raise UserError("there is no new item; give `neighbours` or `vectors`")
    taken = {*old.tokens}
    for token in new:
        if token in taken:
            raise UserError(f"new item {short(token)} is known to the model already, or given twice")
        taken.add(token)


def _contents(weights: Mapping[str, Tensor], vectors: Mapping[Any, Vector]) -> Tensor:
    """Return what new items are, as the model reads it: of columns that no file gave it nothing is known."""
    unknown, width = weights[VECTORS][-1], int(weights[WIDTH])
    if vectors and not width:
        raise UserError("the model reads numeric columns and no `item_vectors`, so give new items `neighbours`")
    contents = unknown.repeat(len(vectors), 1)
    for row, (name, vector) in zip(contents, vectors.items(), strict=True):
        row[:width] = _numbers(name, vector, width, "item_vectors")
        if not bool(row.isfinite().all()):
            raise UserError(f"the vector of {short(name)} has a number above 65504, the most that float16 has")
    return contents


def _numbers(name: object, vector: Vector, size: int, option: str) -> Tensor:
    """Return a vector as a tensor; refuse one of another length, or with numbers that are not finite."""
    try:
        numbers = torch.tensor(np.asarray(vector), dtype=torch.float32)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"the vector of {short(name)} must be {size} numbers, but is {short(vector)}") from error
    if numbers.shape != (size,) or not bool(numbers.isfinite().all()):
        wanted = f"{size} finite numbers (`{option}`)"
        raise UserError(f"the vector of {short(name)} must be {wanted}, but is {short(vector)}")
    return numbers
