"""Archives of plain tensors and plain values that show any changed bit, written whole or not at all.

Each is an archive of torch whose comment, the file's last bytes, is a checksum of all bytes before it. It is read
without unpickling code.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from recbole_bert4rec.system.errors import UserError, short, why
from recbole_bert4rec.system.files import atomic_write, digest_of

_FORMATS = "recbole_bert4rec checkpoint "
FORMAT = f"{_FORMATS}4"

_SEAL = b"sha256 of all bytes before it: "
_DIGITS = 64


class ForeignFileError(UserError):
    """A file that this package did not write."""


def write(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Save ``state``, whole or not at all.

    Raises:
        UserError: the disk is full, or the folder cannot be written to; a checkpoint that was there is as it was.
    """
    with atomic_write(path) as temporary:
        with open(temporary, "w+b") as file:
            try:
                torch.save({"format": FORMAT, **state}, file)
            except RuntimeError as error:  # torch's word for a write that failed
                raise error.__context__ if isinstance(error.__context__, OSError) else error from None
            file.seek(-2, os.SEEK_END)  # where an archive says how long its comment is
            file.write((len(_SEAL) + _DIGITS).to_bytes(2, "little") + _SEAL)
        digest = digest_of(temporary)
        with open(temporary, "ab") as file:
            file.write(digest.encode())


def read(path: str | os.PathLike[str], device: torch.device | str = "cpu", mapped: bool = False) -> dict[str, Any]:
    """Load a checkpoint with ``weights_only=True``, after its checksum was compared: one changed bit is noticed.

    Args:
        path: the file.
        device: where its tensors go.
        mapped: leave tensors in the file, which must not change while they are used.

    Returns:
        The entries that were written, and the ``format``.

    Raises:
        ForeignFileError: the file is not a checkpoint of this package. RecBole's own are pickles, which can run code;
            they are refused here.
        UserError: the file is missing, damaged, or of another format.
    """
    if not Path(path).is_file():
        raise UserError(f"checkpoint {path} does not exist")
    sealed = _check_whole(path)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Detected pickle protocol", UserWarning)  # said of RecBole's own
            state: object = torch.load(path, map_location=device, weights_only=True, mmap=mapped)
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # torch raises many types for pickles and for archives of other things
        raise ForeignFileError(f"{path} is not a checkpoint of recbole_bert4rec ({type(error).__name__})") from error
    file_format = state.get("format") if isinstance(state, dict) else None
    if not isinstance(state, dict) or not isinstance(file_format, str) or not file_format.startswith(_FORMATS):
        raise ForeignFileError(f"{path} is not a checkpoint of recbole_bert4rec (no format {FORMAT!r} in it)")
    if file_format != FORMAT:
        raise UserError(f"{path} has the format {file_format!r}, but this version reads {FORMAT!r} only; train anew")
    if not sealed:
        raise UserError(f"checkpoint {path} is damaged: it has no checksum; copy it again or train anew")
    return state


def _check_whole(path: str | os.PathLike[str]) -> bool:
    """Compare the file with its checksum; if it has none, its members with theirs. Return whether it has one.

    Raises:
        ForeignFileError: it is not an archive.
        UserError: it cannot be read, or a checksum is another.
    """
    try:
        with open(path, "rb") as file:
            is_archive = file.read(4) == b"PK\x03\x04"
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(_SEAL) - _DIGITS))
            seal = file.read()
        sealed = seal.startswith(_SEAL)
        whole = sealed and seal.removeprefix(_SEAL) == digest_of(path, but=_DIGITS).encode()
    except OSError as error:
        raise UserError(f"checkpoint {path} cannot be read ({why(error)})") from error
    if not os.path.getsize(path):
        raise ForeignFileError(f"{path} is empty")
    if not is_archive:
        raise ForeignFileError(f"{path} is not a checkpoint of recbole_bert4rec (no archive)")
    damage = None if whole else _damage(path)
    if damage or whole != sealed:
        damage = damage or ": its checksum is another"
        raise UserError(f"checkpoint {path} is damaged{damage}; copy it again or train anew")
    return sealed


def _damage(path: str | os.PathLike[str]) -> str | None:
    """Say which member of an archive is damaged; None if the checksums of all are right."""
    try:
        with zipfile.ZipFile(path) as archive:
            wrong = archive.testzip()
    except Exception as error:  # zipfile raises many types for damaged archives
        return f" or not whole ({error})"
    return None if wrong is None else f": the checksum of {short(wrong)} is another"
