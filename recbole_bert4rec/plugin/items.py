"""The items that a checkpoint knows, beside those of a data set."""

from __future__ import annotations

from dataclasses import dataclass, field

from recbole.data.dataset import Dataset

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
