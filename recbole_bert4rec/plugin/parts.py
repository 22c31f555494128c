"""Rows of a checkpoint that several processes hold: each writes its own into a file beside the checkpoint."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.growth import ITEM_EMBEDDING, OUTPUT_BIAS
from recbole_bert4rec.plugin import sealed

PARTS = "parts"
"""The entry of a checkpoint that has such files: their ``token``, and the number of ``processes``."""
NO_ROWS = -1
"""Instead of the number of a process, where no rows are needed."""
SHARED = (ITEM_EMBEDDING, OUTPUT_BIAS)
"""Weights whose rows are shared out."""
_WEIGHTS = ("state_dict", "trained")
"""Entries of a checkpoint that hold them."""


def is_entry(value: object) -> bool:
    """Tell whether a value is the entry ``parts``."""
    if not isinstance(value, dict) or set(value) != {"token", "processes"}:
        return False
    token, processes = value["token"], value["processes"]
    return isinstance(token, str) and re.fullmatch("[0-9a-f]{8}", token) is not None and _is_count(processes)


def _is_count(value: object) -> bool:
    return type(value) is int and 1 < value <= 1 << 16


def write(path: str, state: dict[str, Any], rank: int, token: str, processes: int, places: list[int]) -> dict[str, Any]:
    """Write the rows of this process beside a checkpoint that is yet to be written.

    Args:
        path: of the checkpoint.
        state: what this process would write into it.
        rank: of this process.
        token: names the files of all processes.
        processes: their number.
        places: numbers of the shared weights in the optimizer's state.

    Returns:
        What belongs into the checkpoint itself.
    """
    own: dict[str, Any] = {"token": token}
    kept = {**state, PARTS: {"token": token, "processes": processes}}
    for entry in _WEIGHTS:
        if entry in state:
            own[entry] = {name: state[entry][name] for name in SHARED}
            kept[entry] = {name: weight for name, weight in state[entry].items() if name not in SHARED}
    optimizer = state["optimizer"]
    own["optimizer"] = {place: one for place, one in optimizer["state"].items() if place in places}
    others = {place: one for place, one in optimizer["state"].items() if place not in places}
    kept["optimizer"] = {**optimizer, "state": others}
    sealed.write(_file(path, token, rank, processes), own)
    return kept


def tidy(path: str, token: str) -> None:
    """Delete the files beside a checkpoint that an earlier one with its name had."""
    for file in glob.glob(f"{glob.escape(path)}.*.part"):
        if not file.startswith(f"{path}.{token}."):
            Path(file).unlink(missing_ok=True)


def add_rows(
    path: str | os.PathLike[str], state: dict[str, Any], device: torch.device | str, rank: int | None, here: int = 1
) -> None:
    """Put the rows of one process, or of all, where a checkpoint has its weights; ``parts`` is taken out.

    Args:
        path: of the checkpoint.
        state: the checkpoint, which is changed.
        device: where tensors go.
        rank: of the process; its part of the optimizer's state is added, too. None: all rows, without that state.
        here: with ``rank``, the number of processes.

    Raises:
        UserError: a file is missing, damaged, or of another checkpoint; or another number of processes wrote it.
    """
    token, processes = state[PARTS]["token"], state[PARTS]["processes"]
    del state[PARTS]
    if rank is not None and here != processes:
        raise UserError(
            f"{path} has its items in the files of {processes} processes, but here are {here}; give "
            f"--nproc={processes} to train on (what recommends or evaluates loads it in one process)"
        )
    if rank is not None:
        own = _read(path, token, rank, processes, device)
        for entry in _WEIGHTS:
            if entry in state:
                state[entry] |= own[entry]
        state["optimizer"]["state"] |= own["optimizer"]
        return
    found = [_read(path, token, number, processes, device) for number in range(processes)]
    for entry in _WEIGHTS:
        if entry in state:
            for name in SHARED:
                state[entry][name] = _joined([one[entry][name] for one in found], name == ITEM_EMBEDDING)


def _joined(rows: list[Tensor], with_mask: bool) -> Tensor:
    """Join the rows of all processes, each with padding first and, of embeddings, a row for [MASK] last."""
    end = -1 if with_mask else None
    return torch.cat([rows[0][:1], *(one[1:end] for one in rows), *([rows[-1][-1:]] if with_mask else [])])


def _file(path: str | os.PathLike[str], token: str, rank: int, processes: int) -> str:
    return f"{os.fspath(path)}.{token}.{rank}-of-{processes}.part"


def _read(
    path: str | os.PathLike[str], token: str, rank: int, processes: int, device: torch.device | str
) -> dict[str, Any]:
    file = _file(path, token, rank, processes)
    if not os.path.isfile(file):
        raise UserError(f"{path} has rows of its items in {file}, which is missing; keep the files together")
    part = sealed.read(file, device)
    entries = {"token", "format", "optimizer", *(entry for entry in _WEIGHTS if entry in part)}
    weights = [part.get("state_dict"), *([part["trained"]] if "trained" in part else [])]
    fits = set(part) == entries and part["token"] == token and isinstance(part["optimizer"], dict)
    if not fits or not all(isinstance(one, dict) and set(one) == set(SHARED) and _are_rows(one) for one in weights):
        raise UserError(f"{file} does not hold rows of {path}; copy it again or train anew")
    return part


def _are_rows(weights: dict[str, Any]) -> bool:
    table, bias = weights[ITEM_EMBEDDING], weights[OUTPUT_BIAS]
    if not isinstance(table, Tensor) or not isinstance(bias, Tensor) or table.dim() != 2:
        return False
    return bias.shape == (len(table) - 1,)
