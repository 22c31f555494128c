"""The items that a checkpoint knows, beside those of a data set."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from recbole.data.dataset import Dataset

from recbole_bert4rec.checkpoints import checkpoint

ITEM_ORDER = "item_order"
"""Key of the :class:`ItemOrder` in the configuration of a run that goes on from a checkpoint."""


@dataclass(frozen=True)
class ItemOrder:
    """The items that a model knows; a data set numbers its items in the same order.

    Attributes:
        path: of the checkpoint.
        tokens: their external ids, padding first.
    """

    path: str
    tokens: tuple[str, ...] = field(repr=False)


def item_tokens(dataset: Dataset) -> list[str]:
    """Return the items' external ids, in the order of the internal ones; the first stands for padding."""
    return [str(token) for token in dataset.field2id_token[dataset.iid_field]]


_MENDED = "train anew, begin with it (--warm_start), or recommend from it alone (the command recommend)"
"""Remedies if the items of a checkpoint are not those of the data."""


def check_items(path: str | os.PathLike[str], stored: list[str], dataset: Dataset) -> None:
    """Refuse a data set whose items have other internal ids than those that a model was trained with.

    Args:
        path: of the checkpoint.
        stored: its ``item_tokens``.
        dataset: the data of the run.

    Raises:
        UserError: the items are others, or the same in another order.
    """
    tokens = item_tokens(dataset)
    if stored == tokens:
        return
    difference = f"{path} was trained on other items than those of {dataset.dataset_name!r}"
    if len(stored) != len(tokens):
        raise checkpoint.OtherDataError(
            f"{difference}: it knows {len(stored) - 1} items, the data set has {len(tokens) - 1}; {_MENDED}"
        )
    if sorted(stored) == sorted(tokens):
        raise checkpoint.OtherDataError(
            f"{difference}, or rather on the same in another order, so each id means another item; {_MENDED}"
        )
    item_id = next(item_id for item_id, (token, other) in enumerate(zip(stored, tokens, strict=True)) if token != other)
    raise checkpoint.OtherDataError(
        f"{difference}: item {item_id} is {stored[item_id]!r} there and {tokens[item_id]!r} here; {_MENDED}"
    )
