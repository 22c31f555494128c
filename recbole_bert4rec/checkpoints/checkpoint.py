"""Checkpoints of plain tensors and plain values, written whole or not at all, read without unpickling code.

A run has two beside each other: ``NAME.pth`` with the best epoch, which is used, and ``NAME.last.pth`` with the state
that training goes on from. Each is a sealed archive (``sealed.py``). Nothing in here imports RecBole, so that a trained
model can be used where it is not installed.
"""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor

from recbole_bert4rec.checkpoints import sealed
from recbole_bert4rec.options.known import GONE
from recbole_bert4rec.options.table import default
from recbole_bert4rec.system.constants import OUR_MODELS
from recbole_bert4rec.system.errors import UserError

_LAST = ".last.pth"

_PLACES = {"checkpoint_dir", "dataset_save_path", "dataloaders_save_path", "save_dataset", "save_dataloaders"}
_PLACES |= {"trust_pickles"}
"""Options that name places to write to, or pickles to read: a file that came from elsewhere does not say them."""


class OtherDataError(UserError):
    """A checkpoint was trained on other data than those at hand."""


def last_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the checkpoint to go on from, given that of either."""
    return f"{os.fspath(best_of(path)).removesuffix('.pth')}{_LAST}"


def best_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the checkpoint of the best epoch, given that of either."""
    name = os.fspath(path)
    return f"{name.removesuffix(_LAST)}.pth" if name.endswith(_LAST) else name


def write(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Save ``state``, whole or not at all; see :func:`sealed.write`."""
    sealed.write(path, state)


def read(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> dict[str, Any]:
    """Read a checkpoint; see :func:`sealed.read`.

    Args:
        path: the file.
        device: where its tensors go.

    Returns:
        The entries of :data:`ENTRIES`, each of its kind, and others that may be there.

    Raises:
        ForeignFileError: the file is no checkpoint of this package. RecBole's own are pickles, which can run code;
            they are refused here.
        UserError: the file is missing, damaged, of another format, or lacks an entry; or it was trained with an option
            that is gone.
    """
    state = sealed.read(path, device)
    _check_entries(path, state)
    state["config"] = _without_gone(path, _with_todays_names(state["config"]))
    return state


def _with_todays_names(config: dict[str, Any]) -> dict[str, Any]:
    """Return options of a checkpoint; those of before ``batch_sequences`` counted sequences as ``train_batch_size``."""
    if "batch_tokens" not in config:
        return config
    config = dict(config)
    items, sequences = config.pop("batch_tokens"), config.pop("train_batch_size")
    size = (default("train_batch_size"), sequences) if items is None else (items, None)
    return {**config, "train_batch_size": size[0], "batch_sequences": size[1]}


def _without_gone(path: str | os.PathLike[str], config: dict[str, Any]) -> dict[str, Any]:
    """Return options of a checkpoint without those that are gone, and meant nothing to its training.

    Versions that had them wrote them all, but for ``shard_items``, which came last. One alone is another model's.
    """
    if not GONE.keys() - {"shard_items"} <= config.keys():
        return config
    for name, off in GONE.items():
        if config.get(name, off) != off:
            raise UserError(f"{path} was trained with {name}={config[name]!r}, an option that is gone; train anew")
    return {name: value for name, value in config.items() if name not in GONE}


class Entry(NamedTuple):
    """What an entry of a checkpoint must be.

    Attributes:
        wanted: in words.
        holds: whether a value is that.
        required: whether the entry must be there.
    """

    wanted: str
    holds: Callable[[Any], bool]
    required: bool = True


def _is_whole(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_epoch(value: object) -> bool:
    return type(value) is int and value >= -1


def _is_config(value: object) -> bool:
    if not isinstance(value, dict) or not is_plain(value) or not isinstance(value.get("dataset"), str):
        return False
    model = value.get("model")
    return model in OUR_MODELS or (isinstance(model, str) and ":" in model)


def _are_weights(value: object) -> TypeGuard[dict[str, Tensor]]:
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(weight, Tensor) for name, weight in value.items()
    )


def _are_metrics(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and type(score) is float for name, score in value.items()
    )


def _is_optimizer(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("state"), dict)
        and isinstance(value.get("param_groups"), list)
        and all(isinstance(group, dict) for group in value["param_groups"])
    )


def _is_generator(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.dtype == torch.uint8 and value.dim() == 1


def _is_numpy_state(value: object) -> bool:
    """Tell whether numpy's legacy generator takes a list of its name, 624 words, place, and the spare number."""
    if not (isinstance(value, list) and len(value) == 5 and isinstance(value[1], list)):
        return False
    kinds = [(value[0], str), (value[2], int), (value[3], int), (value[4], float), *((word, int) for word in value[1])]
    if len(value[1]) != 624 or not all(type(one) is kind for one, kind in kinds) or not 0 <= value[2] <= 624:
        return False
    return value[0] == "MT19937" and value[3] in (0, 1) and all(0 <= word < 2**32 for word in value[1])


def _is_python_state(value: object) -> bool:
    """Tell whether Python's generator takes a list of its version, 625 words, and the spare number."""
    if not (isinstance(value, list) and len(value) == 3 and isinstance(value[1], list)):
        return False
    version, words, spare = value
    if type(version) is not int or version != 3 or len(words) != 625:
        return False
    sound = all(type(word) is int and 0 <= word < 2**32 for word in words)
    return sound and words[-1] <= 624 and (spare is None or type(spare) is float)


def _are_generators(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_are_of_one_process, value))


def _are_of_one_process(states: object) -> bool:
    """Tell whether this is what ``resuming.py`` keeps of the generators of a process."""
    if not isinstance(states, dict) or not {"torch", "numpy", "python"} <= set(states) <= _GENERATORS:
        return False
    tensors = [state for name, state in states.items() if name not in ("numpy", "python")]
    right_size = _is_generator(states["torch"]) and len(states["torch"]) == len(torch.get_rng_state())
    return (
        right_size
        and all(map(_is_generator, tensors))
        and _is_numpy_state(states["numpy"])
        and _is_python_state(states["python"])
    )


def _is_middle(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"batches", "loss"} or not _is_whole(value["batches"]):
        return False
    losses = value["loss"] if isinstance(value["loss"], (list, tuple)) else [value["loss"]]
    return all(type(loss) is float for loss in losses)


def _is_warm_start(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"file", "kept", "new", "gone"}:
        return False
    return isinstance(value["file"], str) and all(_is_whole(value[name]) for name in ("kept", "new", "gone"))


def _are_callbacks(value: object) -> bool:
    return isinstance(value, dict) and is_plain(value) and all(isinstance(state, dict) for state in value.values())


def _are_tokens(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(token, str) for token in value)


def _are_items(value: object) -> bool:
    return _are_tokens(value) and 1 < len(value) == len(set(value))


def _are_whole(value: object, dtype: torch.dtype = torch.int64) -> TypeGuard[Tensor]:
    """Tell whether a value is a row of whole numbers from 0."""
    return isinstance(value, Tensor) and value.dtype == dtype and value.dim() == 1 and bool((value >= 0).all())


def _are_histories(value: object) -> bool:
    """Tell whether a value is what :meth:`BERT4RecDataset.all_histories` returns."""
    if not isinstance(value, dict) or set(value) != {"users", "items", "offsets", "times"}:
        return False
    users, items, offsets, times = (value[name] for name in ("users", "items", "offsets", "times"))
    if not (_are_tokens(users) and _are_whole(items, torch.int32) and _are_whole(offsets)):
        return False
    bounds = offsets.tolist()
    if len(bounds) != len(users) + 1 or bounds[0] != 0 or bounds[-1] != len(items) or bounds != sorted(bounds):
        return False
    return times is None or (isinstance(times, Tensor) and times.dtype == torch.float64 and times.shape == items.shape)


def _are_preloaded(value: object) -> bool:
    """Tell whether a value is what :meth:`BERT4RecDataset.preloaded_tables` returns."""
    if not _are_weights(value):
        return False
    return all(table.dtype == torch.float64 and table.dim() in (1, 2) for table in value.values())


ENTRIES = {
    "config": Entry(
        f"a dictionary of plain options whose model is one of {list(OUR_MODELS)}, or MODULE:CLASS of a user's own, and "
        "that names a data set",
        _is_config,
    ),
    "epoch": Entry("a whole number from -1, which is that of an untrained model", _is_epoch),
    "cur_step": Entry("a whole number from 0", _is_whole),
    "best_epoch": Entry("a whole number from -1, which is that of no epoch", _is_epoch),
    "best_valid_score": Entry("a number", lambda value: type(value) is float and not math.isnan(value)),
    "best_valid_result": Entry("a dictionary of numbers", _are_metrics),
    "optimizer": Entry("an optimizer's state", _is_optimizer),
    "generators": Entry("the states of each process's random generators", _are_generators),
    "skipped_steps": Entry("a whole number from 0", _is_whole),
    "callbacks": Entry("a dictionary of plain states", _are_callbacks),
    "fingerprint": Entry("a digest of the data", lambda value: isinstance(value, str)),
    "item_tokens": Entry("a list of padding and different items", _are_items),
    "item_counts": Entry("a row of whole numbers from 0", _are_whole),
    "state_dict": Entry("a dictionary of tensors", _are_weights),
    "histories": Entry("users, and the items, bounds and times of their histories", _are_histories, required=False),
    "middle": Entry("the batches of an epoch that are done, and their loss", _is_middle, required=False),
    "preload_weight": Entry("a dictionary of tables of float64", _are_preloaded, required=False),
    "warm_start": Entry("the file that a training began with, and numbers of items", _is_warm_start, required=False),
}
"""What a checkpoint holds; whoever stores more adds it here."""


_GENERATORS = {"torch", "numpy", "python", "cuda", "masks"}


def _check_entries(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    for name, entry in ENTRIES.items():
        if name not in state:
            if entry.required:
                raise UserError(f"checkpoint {path} has no entry {name!r}; it must be {entry.wanted}")
        elif not entry.holds(state[name]):
            raise UserError(
                f"checkpoint {path}: entry {name!r} must be {entry.wanted}, but is {reprlib.repr(state[name])}"
            )


@contextmanager
def explain_misfit(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what torch raises for weights of other names or shapes into one line.

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
    """Return options without those that name places to write to, or pickles to read.

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
