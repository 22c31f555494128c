"""Files that are written whole or not at all, and folders that one process at a time may write to."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recbole_bert4rec.system.errors import UserError, short, why

TABLES = (".csv", ".parquet")
"""Endings of tables."""


def check_output(flag: str, path: str | os.PathLike[str], endings: tuple[str, ...] = ()) -> None:
    """Refuse, before hours of work, a path that could not be written to after them.

    Without ``endings`` it is a folder, which is made if it is missing. With them it is a file in a folder that is
    there.
    """
    target, folder = Path(path), Path(path).resolve()
    if endings:
        if target.suffix not in endings:
            raise UserError(f"{flag} must end in {' or '.join(endings)}, but is {short(path)}")
        if target.is_dir():
            raise UserError(f"{flag}={path} is a folder; name a file")
        folder = folder.parent
        if not folder.is_dir():
            raise UserError(f"{flag}={path}: folder {folder} does not exist")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{flag}: folder {folder} cannot be written to: {why(error)}") from error


def refuse_same(flag: str, path: str, source_flag: str, source: str) -> None:
    """Refuse to write a table over the files that are read."""
    table, read = Path(path).resolve(), Path(source).resolve()
    if table == read or table in read.parents or read in table.parents:
        raise UserError(f"{flag}={path} would replace {source_flag}={source}, which is read; name another file")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside ``path`` to write to; the file takes its place when the block ends well.

    A reader sees the old file or the new one, never half of it, after a power failure too. After an error nothing is
    left behind; a process that was killed leaves what it had written so far.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)  # a link that somebody put there would be followed
        yield temporary
        _flush(temporary, os.O_RDWR)
        os.replace(temporary, path)
        _flush(path.parent, os.O_RDONLY)
    except OSError as error:
        before = "; the file that was there before is unchanged" if os.path.isfile(path) else ""
        raise UserError(f"{path} cannot be written: {why(error)}{before}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def keep_made(made: Path, path: Path) -> None:
    """Let a finished file, or a folder of files, be ``path``, after a power failure too."""
    for file in made.iterdir() if made.is_dir() else [made]:
        _flush(file, os.O_RDWR)
    os.replace(made, path)
    _flush(path.parent, os.O_RDONLY)


def _flush(path: Path, access: int) -> None:
    """Wait until the content of a file, or the list of a folder's files, is on the disk."""
    opened = os.open(path, access)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(lock: Path, program: str, flag: str, target: Path) -> Iterator[None]:
    """Keep all other processes out that lock the same file."""
    from filelock import FileLock, Timeout  # exported models are asked without it

    file_lock = FileLock(lock)
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file_lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(
            f"another {program} is writing {target}; wait until it ends, or write elsewhere by {flag}"
        ) from error
    except OSError as error:
        raise UserError(f"{flag}={target}: {lock.parent} is no folder that can be written to: {why(error)}") from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        file_lock.release()
