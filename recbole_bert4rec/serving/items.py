"""Names of items from an .item file, and the search for items by name or id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recbole_bert4rec.logs.items import read_names

if TYPE_CHECKING:
    from recbole_bert4rec.recommend.recommender import Recommender


class ItemFile:
    """Names of items from an .item file: its first column that is called, or ends with, name or title."""

    def __init__(self, path: str | None, field: str, model: Recommender | None = None) -> None:
        self._names: dict[str, str] = {}
        if path is not None:
            self._read(path, field, model)

    def show(self, item: str) -> dict[str, Any]:
        """Return the fields of :class:`~recbole_bert4rec.serving.questions.Shown`."""
        return {"item": item, "name": self._names.get(item)}

    def names_of(self, items: Sequence[str]) -> list[str]:
        """Return the name of each item, or an empty text."""
        return [self._names.get(item, "") for item in items]

    def _read(self, path: str, field: str, model: Recommender | None) -> None:
        ids, names = read_names(path, field)
        if model is not None:
            model.check_known(f"--items={path}", ids)
            ids = model.in_spelling(ids)
        self._names = {item: name for item, name in zip(ids, names, strict=True) if name}


class ItemSearch:
    """Items of a catalogue by id or name."""

    def __init__(self, items: Sequence[str], names: Sequence[str]) -> None:
        self._items = items
        self._ids, self._names = (pc.utf8_lower(pa.array(texts, pa.string())) for texts in (items, names))

    def find(self, text: str, most: int) -> list[str]:
        """Return items whose id or name contains the text, in upper or lower case.

        An equal id comes first, then names that begin with the text, then names and then ids that contain it.
        """
        lowered = pc.utf8_lower(pa.scalar(text.strip())).as_py()  # as names are, unlike Python's final sigma
        matches = [
            pc.equal(self._ids, pa.scalar(lowered)),
            pc.starts_with(self._names, lowered),
            pc.match_substring(self._names, lowered),
            pc.match_substring(self._ids, lowered),
        ]
        indices = np.concatenate([np.flatnonzero(mask.to_numpy(zero_copy_only=False)) for mask in matches])
        _, first = np.unique(indices, return_index=True)
        return [self._items[index] for index in indices[np.sort(first)[:most]]]
