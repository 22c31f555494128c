"""Files that are written whole or not at all, and folders that one process at a time may write to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from recbole_bert4rec.errors import UserError

_CHUNK = 2**20
"""Bytes of a file that are read at once."""
PICTURES = (".png", ".pdf", ".svg")
"""Endings of pictures."""


def check_writable(flag: str, path: str) -> None:
    """Refuse, before hours of training, a file that could not be written after them.

    Args:
        flag: by which the user named it.
        path: of the file.

    Raises:
        UserError: it is a folder, or its own folder is missing.
    """
    if Path(path).is_dir():
        raise UserError(f"{flag}={path} is a folder; name a file")
    if not Path(path).resolve().parent.is_dir():
        raise UserError(f"{flag}={path}: folder {Path(path).resolve().parent} does not exist")


def check_picture(flag: str, path: str) -> None:
    """Refuse a picture that could not be written; arguments as of :func:`check_writable`.

    Raises:
        UserError: its ending or its folder is wrong.
    """
    if Path(path).suffix not in PICTURES:
        raise UserError(f"{flag}={path} must end in {', '.join(PICTURES)}")
    check_writable(flag, path)


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


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def locked(lock: Path, what: str, flag: str, place: Path) -> Iterator[None]:
    """Keep all other processes out that lock the same file.

    Args:
        lock: the file; its folder is made where it is missing.
        what: the program that writes, for the message, such as ``comparison``.
        flag: by which the user named the place.
        place: what is written to.

    Raises:
        UserError: another process holds the lock, or the folder cannot be written to.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    except OSError as error:
        raise UserError(
            f"{flag}={place}: {lock.parent} is no folder that can be written to: {error.strerror}"
        ) from error
    held = FileLock(lock)
    try:
        held.acquire(timeout=0)
    except Timeout as error:
        raise UserError(f"another {what} is writing {place}; write elsewhere by {flag}") from error
    try:
        yield
    finally:
        held.release()
