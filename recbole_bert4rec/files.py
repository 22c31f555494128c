"""Files that are written whole or not at all, to places that were looked at before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recbole_bert4rec.errors import UserError


def check_writable(flag: str, path: str) -> None:
    """Refuse, before hours of training, a file that could not be written after them.

    Args:
        flag: by which the user named it.

    Raises:
        UserError: it is a folder, or its own folder is missing.
    """
    if Path(path).is_dir():
        raise UserError(f"{flag}={path} is a folder; name a file")
    if not Path(path).resolve().parent.is_dir():
        raise UserError(f"{flag}={path}: folder {Path(path).resolve().parent} does not exist")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside ``path`` to write to; the file takes its place when the block ends well.

    A reader sees the old file or the new one, never half of it; after an error nothing is left behind.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
