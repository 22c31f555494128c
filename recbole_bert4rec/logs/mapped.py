"""A large log as memory-mapped files: processes share one copy, and what memory does not hold stays on the disk."""

from __future__ import annotations

from collections import UserDict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ITEMS, OFFSETS, TIMES, COUNTS = "items.int32", "offsets.int64", "times.float64", "item_counts.int64"
"""Files of numbers, named by their type."""
USER_TOKENS, ITEM_TOKENS = "users.text", "items.text"
"""Files of ids, in numpy's texts of one width; the first id is padding's."""

_AT_ONCE = 1 << 20
"""Numbers of a file that are read at once."""


def is_mapped(folder: str | Path) -> bool:
    """Tell whether a folder holds the files of a :class:`MappedLog`."""
    return (Path(folder) / OFFSETS).is_file()


class MappedLog:
    """All interactions of a log, user after user, oldest first; a file is mapped when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder}  # whoever unpickles it maps the files, too

    def __len__(self) -> int:
        return (self.folder / ITEMS).stat().st_size // 4

    @cached_property
    def items(self) -> Tensor:
        """Internal item ids. *Shape:* (T,)."""
        return self._mapped(ITEMS)

    @cached_property
    def offsets(self) -> Tensor:
        """Return where each user's interactions begin, padding's first, and the last end. *Shape:* (U + 1,)."""
        return self._mapped(OFFSETS)

    @cached_property
    def item_counts(self) -> Tensor:
        """Return how often each item is in the log. *Shape:* (N,)."""
        return self._mapped(COUNTS)

    @cached_property
    def user_tokens(self) -> NDArray[np.str_]:
        """External ids of users by their internal ones. *Shape:* (U,)."""
        return self._texts(USER_TOKENS, len(self.offsets) - 1)

    @cached_property
    def item_tokens(self) -> NDArray[np.str_]:
        """External ids of items by their internal ones. *Shape:* (N,)."""
        return self._texts(ITEM_TOKENS, len(self.item_counts))

    def read_at(self, name: str, positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return numbers at some places in a file; it is read once, not mapped, for mapped pages would stay in memory.

        *Shape:* positions (R,), ascending -> (R,)
        """
        values = np.empty(len(positions), _type_of(name))
        begin = done = 0
        with (self.folder / name).open("rb") as file:
            while len(block := np.fromfile(file, values.dtype, _AT_ONCE)):
                here = slice(done, int(np.searchsorted(positions, begin + len(block))))
                values[here] = block[positions[here] - begin]
                begin, done = begin + len(block), here.stop
        return values

    def _mapped(self, name: str) -> Tensor:
        path, dtype = self.folder / name, getattr(torch, _type_of(name))
        return torch.from_file(str(path), shared=False, size=path.stat().st_size // dtype.itemsize, dtype=dtype)

    def _texts(self, name: str, count: int) -> NDArray[np.str_]:
        path = self.folder / name
        return np.memmap(path, dtype=f"<U{path.stat().st_size // 4 // count}", mode="r", shape=(count,))


def _type_of(name: str) -> str:
    return name.rpartition(".")[2]


class NumberOf(UserDict[str, int]):
    """The internal ids of external ones, as a dictionary that is made when it is first needed, which is seldom."""

    def __init__(self, tokens: NDArray[np.str_]) -> None:
        self._tokens = tokens

    @cached_property
    def data(self) -> dict[str, int]:  # type: ignore[override]  # of UserDict
        """The dictionary."""
        return {str(token): number for number, token in enumerate(self._tokens)}
