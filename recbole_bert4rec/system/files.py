"""Files that are written whole or not at all, and folders that one process at a time may write to."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recbole_bert4rec.system.errors import UserError, why

TABLES = (".csv", ".parquet")
"""Endings of tables."""


def check_writable(flag: str, path: str) -> None:
    """Refuse, before hours of training, a file that could not be written after them."""
    if Path(path).is_dir():
        raise UserError(f"{flag}={path} is a folder; name a file")
    _check_parent(flag, path)


def _check_parent(flag: str, path: str) -> None:
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise UserError(f"{flag}={path}: folder {folder} does not exist")
    check_folder(flag, folder)


def check_folder(flag: str, folder: str | os.PathLike[str]) -> None:
    """Make a folder if it is missing, and refuse one that cannot be written to."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"{flag}: folder {folder} cannot be written to: {why(error)}") from error


def check_table(flag: str, path: str, or_folder: bool = False) -> None:
    """Refuse a table that could not be written; arguments as of :func:`check_writable`."""
    if or_folder and not Path(path).suffix:
        _check_parent(flag, path)
        if Path(path).exists() and (other := _no_parquet(Path(path))) is not None:
            raise UserError(f"{flag}={path} would replace {other}, which is no .parquet file; name a new folder")
        return
    if Path(path).suffix not in TABLES:
        folder = ", or a folder" if or_folder else ""
        raise UserError(f"{flag} must name a .csv or .parquet file{folder}, but is {path!r}")
    check_writable(flag, path)


def refuse_same(flag: str, path: str, source_flag: str, source: str) -> None:
    """Refuse to write a table over the files that are read."""
    table, read = Path(path).resolve(), Path(source).resolve()
    if table == read or (read.is_dir() and read in table.parents) or (table.is_dir() and table in read.parents):
        raise UserError(f"{flag}={path} would replace {source_flag}={source}, which is read; name another file")


def _no_parquet(path: Path) -> Path | None:
    """Return a path that is not a .parquet file: the path itself, or one in the folder; None if all are."""
    if not path.is_dir():
        return path
    return next((child for child in path.iterdir() if child.suffix != ".parquet" or not child.is_file()), None)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside ``path`` to write to; the file takes its place when the block ends well.

    A reader sees the old file or the new one, never half of it, after a power failure too. After an error nothing is
    left behind; what a killed process left behind is removed by the next that writes the same file.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        temporary.unlink(missing_ok=True)  # a link that somebody put there would be followed
        yield temporary
        _flush(temporary, os.O_RDWR)
        os.replace(temporary, path)
        if os.name == "posix":  # Windows opens no folders
            _flush(path.parent, os.O_RDONLY)
    except OSError as error:
        before = "; the file that was there before is unchanged" if os.path.isfile(path) else ""
        raise UserError(f"{path} cannot be written: {why(error)}{before}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder beside ``path``, which is gone after the block unless :func:`keep_folder` named it.

    What a killed process left behind is removed by the next that asks for the same path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def keep_folder(folder: Path, path: Path) -> None:
    """Let a finished folder be ``path``, after a power failure too; a folder that is there already stays."""
    if path.is_dir():
        return
    for file in folder.iterdir():
        _flush(file, os.O_RDWR)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.rename(folder, path)
    if os.name == "posix":
        _flush(path.parent, os.O_RDONLY)


def _flush(path: Path, access: int) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk."""
    opened = os.open(path, access)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote ``path``."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        process = leftover.name.rsplit(".", 2)[1]
        if process.isdecimal() and not _is_alive(int(process)):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            else:
                leftover.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it is somebody else's
        return True
    return True


def digest_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def locked(lock: Path, program: str, flag: str, target: Path) -> Iterator[None]:
    """Keep all other processes out that lock the same file."""
    from filelock import FileLock, Timeout  # exported models are asked without it

    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    except OSError as error:
        raise UserError(f"{flag}={target}: {lock.parent} is no folder that can be written to: {why(error)}") from error
    file_lock = FileLock(lock)
    try:
        file_lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(
            f"another {program} is writing {target}; wait until it ends, or write elsewhere by {flag}"
        ) from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        file_lock.release()
