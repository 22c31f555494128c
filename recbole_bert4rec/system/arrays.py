"""Files of numpy's arrays, read without unpickling."""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNREADABLE = (OSError, ValueError, KeyError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""Errors of numpy and zipfile for damaged files."""


def read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file of :func:`numpy.savez`; none is unpickled. It raises :data:`UNREADABLE`."""
    with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as file:  # np.load alone reads other files, too
        return {name: file[name] for name in file.files}
