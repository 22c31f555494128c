"""Checkpoints of plain tensors and plain values, written whole or not at all, read without unpickling code.

A run has two beside each other: ``NAME.pth`` with the best epoch, which is used, and ``NAME.last.pth`` with the state
that training goes on from. Each is an archive of torch. Nothing in here imports RecBole, so that a trained model can be
used where it is not installed.
"""

from __future__ import annotations

import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from recbole_bert4rec.system.errors import UserError, short, why
from recbole_bert4rec.system.files import atomic_write

_FORMATS = "recbole_bert4rec checkpoint "
FORMAT = f"{_FORMATS}6"
LAST = ".last.pth"

_PLACES = {"checkpoint_dir", "dataset_save_path", "dataloaders_save_path", "save_dataset", "save_dataloaders"}
_PLACES |= {"trust_pickles"}
"""Options that name folders to write to, or let pickles be read: a file from elsewhere must not set them."""


class ForeignFileError(UserError):
    """A file that this package did not write."""


class OtherDataError(UserError):
    """A checkpoint was trained on other data than those at hand."""


def last_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the checkpoint to go on from, by the name of that or of the best one."""
    return f"{os.fspath(best_of(path)).removesuffix('.pth')}{LAST}"


def best_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the checkpoint of the best epoch, by the name of that or of the last one."""
    name = os.fspath(path)
    return f"{name.removesuffix(LAST)}.pth" if name.endswith(LAST) else name


def write(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Save ``state``, whole or not at all."""
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        try:
            torch.save({"format": FORMAT, **state}, file)
        except RuntimeError as error:  # torch's word for a write that failed
            raise error.__context__ if isinstance(error.__context__, OSError) else error from None


def read(path: str | os.PathLike[str], device: torch.device | str = "cpu", mapped: bool = False) -> dict[str, Any]:
    """Read a checkpoint with ``weights_only=True``, after the checksums of its members were compared."""
    if Path(path).is_dir():
        raise UserError(f"{path} is a folder, such as `export` writes; here the checkpoint is needed, a file")
    if not Path(path).is_file():
        raise UserError(f"checkpoint {path} does not exist")
    _check_whole(path)
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
    return state


def _check_whole(path: str | os.PathLike[str]) -> None:
    """Refuse a file that is not an archive, or a member of which has another checksum; torch compares none."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                raise ForeignFileError(f"{path} is not a checkpoint of recbole_bert4rec (no archive)")
    except OSError as error:
        raise UserError(f"checkpoint {path} cannot be read ({why(error)})") from error
    damage: object
    try:
        with zipfile.ZipFile(path) as archive:
            damage = archive.testzip()
    except Exception as error:  # zipfile raises many types for damaged archives
        damage = error
    if damage is not None:
        raise UserError(f"checkpoint {path} is damaged ({short(damage)}); copy it again or train anew")


class Opened(NamedTuple):
    """The path of a checkpoint and the entries that :func:`read` returned, so that it is read once."""

    path: str
    state: dict[str, Any]


@contextmanager
def explain_misfit(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say in one line what torch says about weights of other names or shapes."""
    try:
        yield
    except UserError:
        raise
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        raise OtherDataError(f"the weights in {path} do not fit the network: {' '.join(str(error).split())}") from error


def without_places(values: dict[str, Any]) -> dict[str, Any]:
    """Return options without :data:`_PLACES`, which are neither stored in a checkpoint nor taken from one."""
    return {key: value for key, value in values.items() if key not in _PLACES}


def is_plain(value: object) -> bool:
    """Return whether a value is made of None, bool, int, float, str, list, tuple and dict alone."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain(item) for item in value)
    return value is None or type(value) in (bool, int, float, str)
