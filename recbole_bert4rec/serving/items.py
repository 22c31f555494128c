"""Names and pictures of items from an .item file, and the search for items by name or id."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recbole_bert4rec.datafiles.items import read_items
from recbole_bert4rec.errors import UserError, short_list

if TYPE_CHECKING:
    from recbole_bert4rec.recommend.recommender import Recommender

_NAMES = ("name", "title")
_PICTURES = ("picture", "image", "img", "poster", "cover", "photo", "thumbnail")
PICTURE_KINDS = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp"}
PICTURE_KINDS |= {".gif": "image/gif", ".avif": "image/avif"}
"""Media types of pictures on the service's own disk, by the ending."""


class ItemFile:
    """What an .item file says of items.

    The name is the first column whose field is, or ends with, ``name`` or ``title``; the picture likewise ``picture``,
    ``image``, ``poster``, ``cover``, ``photo`` or ``thumbnail``. A picture is an https address, or a file in the
    folder of the .item file.

    Args:
        path: of the file; None for no file.
        field: name of the column of ids.
        model: whose spelling of ids the items have, and which must know one.

    Attributes:
        remote: whether some pictures are elsewhere.

    Raises:
        UserError: the file cannot be read, has no ids or nothing to show, or names no item of the model.
    """

    def __init__(self, path: str | None, field: str, model: Recommender | None = None) -> None:
        self._names: dict[str, str] = {}
        self._pictures: dict[str, str] = {}
        self._folder = Path(path or ".").resolve().parent
        if path is not None:
            self._read(path, field, model)
        self.remote = any(_is_remote(picture) for picture in self._pictures.values())

    def show(self, item: str) -> dict[str, Any]:
        """Return the fields of :class:`~recbole_bert4rec.serving.questions.Shown`."""
        picture = self._pictures.get(item)
        if picture is not None and not _is_remote(picture):
            picture = None if self.picture_file(item) is None else "picture"
        return {"item": item, "name": self._names.get(item), "picture": picture}

    def names_of(self, items: Sequence[str]) -> list[str]:
        """Return the name of each item; empty where it has none."""
        return [self._names.get(item, "") for item in items]

    def picture_file(self, item: str) -> Path | None:
        """Return the picture of an item on this disk, if it has one; nothing outside the folder of the .item file."""
        named = self._pictures.get(item)
        if named is None or _is_remote(named) or "\0" in named:
            return None
        try:
            file = (self._folder / named).resolve()
            inside = file.is_relative_to(self._folder) and file.suffix.lower() in PICTURE_KINDS
            return file if inside and file.is_file() else None
        except OSError:  # a name that no file can have
            return None

    def _read(self, path: str, field: str, model: Recommender | None) -> None:
        columns = read_items(path, field)
        ids = columns.pop(field).values
        if model is not None:
            model.check_known(f"--items={path}", ids)
            ids = model.in_spelling(ids)
        name, picture = (_ending_with(words, columns) for words in (_NAMES, _PICTURES))
        if name is None and picture is None:
            raise UserError(
                f"--items={path} has nothing to show: no column is called, or ends with, "
                f"{', '.join((*_NAMES, *_PICTURES))}; it has {short_list(columns)}"
            )
        for column, found in ((name, self._names), (picture, self._pictures)):
            values = [] if column is None else columns[column].values
            texts = (" ".join(value) if isinstance(value, list) else value for value in values)
            found.update((item, text) for item, text in zip(ids, texts, strict=False) if text)


def _ending_with(words: tuple[str, ...], columns: Collection[str]) -> str | None:
    return next((column for word in words for column in columns if column.lower().endswith(word)), None)


def _is_remote(picture: str) -> bool:
    return picture.startswith("https://")


class Search:
    """Items of a catalogue by id or name.

    Args:
        items: ids.
        names: of the items; empty where there is none.
    """

    def __init__(self, items: Sequence[str], names: Sequence[str]) -> None:
        self._items = items
        self._ids, self._names = (pc.utf8_lower(pa.array(texts, pa.string())) for texts in (items, names))

    def find(self, text: str, most: int) -> list[str]:
        """Return items that have the text in their id or name, upper and lower case alike.

        The id itself comes first, then names that begin with the text, then names that have it, then ids that have it.
        """
        wanted = pc.utf8_lower(pa.scalar(text.strip())).as_py()  # as names are, unlike Python's final sigma
        found = [
            pc.equal(self._ids, pa.scalar(wanted)),
            pc.starts_with(self._names, wanted),
            pc.match_substring(self._names, wanted),
            pc.match_substring(self._ids, wanted),
        ]
        places = np.concatenate([np.flatnonzero(one.to_numpy(zero_copy_only=False)) for one in found])
        _, first = np.unique(places, return_index=True)
        return [self._items[place] for place in places[np.sort(first)[:most]]]
