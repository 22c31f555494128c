"""Checkpoints of plain tensors and plain values, written whole or not at all, read without unpickling code.

A run has two beside each other: ``NAME.pth`` with the best epoch, which is used, and ``NAME.last.pth`` with the state
that training goes on from. Each is a sealed archive (``sealed.py``). Nothing in here imports RecBole, so that a trained
model can be used where it is not installed.
"""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from recbole_bert4rec.checkpoints import sealed
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.system.errors import UserError

_LAST = ".last.pth"

_PLACES = {"checkpoint_dir", "dataset_save_path", "dataloaders_save_path", "save_dataset", "save_dataloaders"}
_PLACES |= {"trust_pickles"}
"""Options that name folders to write to, or pickles to read: a file from elsewhere must not set them."""


class OtherDataError(UserError):
    """A checkpoint was trained on other data than those at hand."""


def last_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the checkpoint to go on from, by the name of that or of the best one."""
    return f"{os.fspath(best_of(path)).removesuffix('.pth')}{_LAST}"


def best_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the checkpoint of the best epoch, by the name of that or of the last one."""
    name = os.fspath(path)
    return f"{name.removesuffix(_LAST)}.pth" if name.endswith(_LAST) else name


def write(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Save ``state``, whole or not at all; see :func:`sealed.write`."""
    sealed.write(path, state)


def read(path: str | os.PathLike[str], device: torch.device | str = "cpu", mapped: bool = False) -> dict[str, Any]:
    """Read a checkpoint; see :func:`sealed.read`.

    Args:
        path: the file.
        device: where its tensors go.
        mapped: leave tensors in the file, which must not change while they are used.

    Returns:
        The entries of :data:`ENTRIES`, each of its kind, and others that may be there.

    Raises:
        ForeignFileError: the file is not a checkpoint of this package. RecBole's own are pickles, which can run code;
            they are refused here.
        UserError: the file is missing, damaged, of another format, or lacks an entry.
    """
    state = sealed.read(path, device, mapped)
    _check_entries(path, state)
    return state


class Opened(NamedTuple):
    """The path of a checkpoint and the entries that :func:`read` returned, so that it is read once."""

    path: str
    state: dict[str, Any]


Fits = Callable[[Any], bool]


class EntryKind(NamedTuple):
    """Describes the values that an entry of a checkpoint may have.

    Attributes:
        wanted: the values in words.
        fits: tells whether a value is one of them.
        required: whether the entry must be there.
    """

    wanted: str
    fits: Fits
    required: bool = True


def _is(kind: type | tuple[type, ...]) -> Fits:
    return lambda value: isinstance(value, kind)


def _whole(least: int) -> Fits:
    return lambda value: type(value) is int and value >= least


def _row(dtype: torch.dtype) -> Fits:
    return lambda value: isinstance(value, Tensor) and value.dtype == dtype and value.dim() == 1


def _list_of(fits: Fits) -> Fits:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _by_name(fits: Fits) -> Fits:
    return lambda value: isinstance(value, dict) and all(map(_is(str), value)) and all(map(fits, value.values()))


def _of_parts(**parts: Fits) -> Fits:
    """Return a test of a dictionary with these parts; a missing part is tested as None."""
    return lambda value: isinstance(value, dict) and all(fits(value.get(name)) for name, fits in parts.items())


def _is_config(value: object) -> bool:
    if not isinstance(value, dict) or not is_plain(value) or not isinstance(value.get("dataset"), str):
        return False
    model = value.get("model")
    return model in OUR_MODELS or (isinstance(model, str) and ":" in model)


def _are_items(value: Any) -> bool:
    return _list_of(_is(str))(value) and 1 < len(value) == len(set(value))


_NONE = type(None)
_GENERATORS = _of_parts(torch=_row(torch.uint8), numpy=_is(list), python=_is(list))
_HISTORIES = _of_parts(users=_list_of(_is(str)), items=_row(torch.int32), offsets=_row(torch.int64))
_COLD_ITEMS = _of_parts(tokens=_list_of(_is(str)), vectors=_is(Tensor))
_WARM_START = _of_parts(file=_is(str), kept=_whole(0), new=_whole(0), gone=_whole(0))
_MEMORY = _of_parts(offsets=_row(torch.int64), items=_row(torch.int32), values=_row(torch.float16), weight=_is(float))


def _is_other(value: Any) -> bool:
    return value == {} or (isinstance(value, dict) and value.keys() == {"memory"} and _MEMORY(value["memory"]))


ENTRIES = {
    "config": EntryKind(
        f"a dictionary of plain options whose model is one of {list(OUR_MODELS)}, or MODULE:CLASS of a user's own, and "
        "that names a data set",
        _is_config,
    ),
    "epoch": EntryKind("a whole number from -1, which is that of an untrained model", _whole(-1)),
    "cur_step": EntryKind("a whole number from 0", _whole(0)),
    "best_epoch": EntryKind("a whole number from -1, which is that of no epoch", _whole(-1)),
    "best_valid_score": EntryKind("a number", _is(float)),
    "best_valid_result": EntryKind("a dictionary of numbers", _by_name(_is(float))),
    "optimizer": EntryKind("an optimizer's state", _of_parts(state=_is(dict), param_groups=_list_of(_is(dict)))),
    "generators": EntryKind("the states of each process's random generators", _list_of(_GENERATORS)),
    "callbacks": EntryKind(
        "a dictionary of plain states", lambda value: is_plain(value) and _by_name(_is(dict))(value)
    ),
    "fingerprint": EntryKind("a digest of the data", _is(str)),
    "item_tokens": EntryKind("a list of padding and different items", _are_items),
    "item_counts": EntryKind("a row of whole numbers from 0", _row(torch.int64)),
    "state_dict": EntryKind("a dictionary of tensors", _by_name(_is(Tensor))),
    "cold_items": EntryKind("items without interactions, and what they are", _COLD_ITEMS, required=False),
    "histories": EntryKind("users, and the items and bounds of their histories", _HISTORIES, required=False),
    "preload_weight": EntryKind("a dictionary of tables of float64", _by_name(_is(Tensor)), required=False),
    "other_parameter": EntryKind("a dictionary that is empty, or has a `memory` alone", _is_other, required=False),
    "warm_start": EntryKind("the file that a training began with, and numbers of items", _WARM_START, required=False),
}
"""Entries of a checkpoint by name; code that stores another one adds it here."""


def _check_entries(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    for name, entry in ENTRIES.items():
        if name not in state:
            if entry.required:
                raise UserError(f"checkpoint {path} has no entry {name!r}; it must be {entry.wanted}")
        elif not entry.fits(state[name]):
            raise UserError(
                f"checkpoint {path}: entry {name!r} must be {entry.wanted}, but is {reprlib.repr(state[name])}"
            )


@contextmanager
def explain_misfit(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn torch's errors about weights of other names or shapes into one line.

    Args:
        path: of the checkpoint whose weights are loaded inside the block.
    """
    try:
        yield
    except UserError:
        raise
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        raise OtherDataError(f"the weights in {path} do not fit the network: {' '.join(str(error).split())}") from error


def without_places(values: dict[str, Any]) -> dict[str, Any]:
    """Return options without those that name folders to write to, or pickles to read.

    They are neither stored in a checkpoint nor taken from one.
    """
    return {key: value for key, value in values.items() if key not in _PLACES}


def is_plain(value: object) -> bool:
    """Return whether a value is made of None, bool, int, float, str, list, tuple and dict alone."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(is_plain(item) for item in value)
    return value is None or type(value) in (bool, int, float, str)
