"""The items that a checkpoint knows, beside those of a data set."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from recbole.data.dataset import Dataset

from recbole_bert4rec.checkpoints import checkpoint

ITEM_ORDER = "item_order"
"""Where the configuration of a run that goes on from a checkpoint has an :class:`ItemOrder`."""


@dataclass(frozen=True)
class ItemOrder:
    """The items that a model knows, by which a data set numbers its own, whatever their order in the data is.

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
"""What helps where the items of a checkpoint are not those of the data."""


def check_items(path: str | os.PathLike[str], stored: list[str], dataset: Dataset) -> None:
    """Refuse a data set whose items have other internal ids than those that a model was trained with.

    Args:
        path: of the checkpoint.
        stored: its ``item_tokens``.
        dataset: that the model is to be used with.

    Raises:
        UserError: the items are others, or the same in another order.
    """
    found = item_tokens(dataset)
    if stored == found:
        return
    what = f"{path} was trained on other items than those of {dataset.dataset_name!r}"
    if len(stored) != len(found):
        raise checkpoint.OtherDataError(
            f"{what}: it knows {len(stored) - 1} items, the data set has {len(found) - 1}; {_MENDED}"
        )
    if sorted(stored) == sorted(found):
        raise checkpoint.OtherDataError(
            f"{what}, or rather on the same in another order, so each id means another item; {_MENDED}"
        )
    place = next(place for place, (one, other) in enumerate(zip(stored, found, strict=True)) if one != other)
    raise checkpoint.OtherDataError(
        f"{what}: item {place} is {stored[place]!r} there and {found[place]!r} here; {_MENDED}"
    )
