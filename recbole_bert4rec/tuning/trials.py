"""Trials on disk: a line of JSON each, written the moment the trial ends, so that nothing finished is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from recbole_bert4rec.options.kinds import is_number
from recbole_bert4rec.system.errors import UserError, short
from recbole_bert4rec.system.files import atomic_write
from recbole_bert4rec.tuning.search import key_of
from recbole_bert4rec.tuning.space import Parameter

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"


@dataclass
class Trial:
    """A setting and its result.

    Attributes:
        number: in the order of the search, from 0.
        status: ``finished``; ``stopped`` early by the scheduler; or ``failed``.
        score: best validation score; None if it failed.
        valid: all validation metrics of that epoch.
        epochs: epochs trained.
        best_epoch: the epoch of the score, from 0.
        reason: why it failed.
    """

    number: int
    params: dict[str, Any]
    status: str = FINISHED
    score: float | None = None
    valid: dict[str, float] = field(default_factory=dict)
    epochs: int = 0
    best_epoch: int | None = None
    seconds: float = 0.0
    reason: str = ""

    def better_than(self, other: Trial | None, bigger: bool) -> bool:
        """Return whether this trial is better by score, or by number if scores are equal."""
        if self.score is None or other is None or other.score is None:
            return self.score is not None
        mine, its = (self.score, other.score) if bigger else (-self.score, -other.score)
        return (mine, -self.number) > (its, -other.number)


def _header_of(line: bytes) -> dict[str, Any]:
    """Return the description of the search from the first line."""
    content = json.loads(line.decode("utf-8"))
    header = content.get("search") if isinstance(content, dict) else None
    if not isinstance(header, dict):
        raise ValueError(f"it must be a dictionary with `search`, but is {short(content)}")
    return header


def _trial_of(line: bytes) -> Trial:
    """Read the trial of one line; refuse values that no trial has."""
    content = json.loads(line.decode("utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"it must be a dictionary, but is {short(content)}")
    known = {entry.name for entry in fields(Trial)}
    if set(content) != known:
        raise ValueError(f"it must have {sorted(known)}, but has {short(sorted(content))}")
    rules: dict[str, Callable[[Any], bool]] = {
        "number": _is_count,
        "params": lambda value: isinstance(value, dict),
        "status": lambda value: value in (FINISHED, STOPPED, FAILED),
        "score": lambda value: value is None if content["status"] == FAILED else is_number(value),
        "valid": lambda value: (
            isinstance(value, dict) and all(metric is None or is_number(metric) for metric in value.values())
        ),
        "epochs": _is_count,
        "best_epoch": lambda value: value is None or _is_count(value),
        "seconds": is_number,
        "reason": lambda value: isinstance(value, str),
    }
    wrong = [f"`{name}` cannot be {short(content[name])}" for name, rule in rules.items() if not rule(content[name])]
    if wrong:
        raise ValueError("; ".join(wrong))
    return Trial(**content)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class TrialLog:
    """The file of a search: its first line describes the search, and each other line is a trial.

    Args:
        path: the file, ``.jsonl``.
        about: all that the trials depend on; plain values, among them ``space``, the kind and values of each parameter.
        resume: whether the file may hold trials already, to go on from.

    Raises:
        UserError: the file is there without ``resume``, belongs to another search, or cannot be read.
    """

    def __init__(self, path: Path, about: dict[str, Any], resume: bool) -> None:
        self.path, self.about = path, json.loads(json.dumps(about, default=str))
        self.trials: list[Trial] = []
        self.bigger = bool(about["bigger"])
        if path.exists() and resume:
            self._read()
        elif path.exists():
            raise UserError(
                f"{path} holds an earlier search; go on with it by --resume, or write elsewhere by --output_file"
            )

    def _read(self) -> None:
        lines = self.path.read_bytes().split(b"\n")
        whole = lines[:-1]  # what follows the last line break was being written when the process was killed
        try:
            header = _header_of(whole[0]) if whole else self.about
        except (ValueError, RecursionError) as error:
            raise UserError(f"{self.path} is not the file of a search: line 1: {error}") from error
        different = [key for key in self.about if header.get(key) != self.about[key]]
        if different:
            changes = "; ".join(
                f"{key} was {short(header.get(key))}, not {short(self.about[key])}" for key in different
            )
            raise UserError(f"{self.path} belongs to another search ({changes}); write elsewhere by --output_file")
        for number, line in enumerate(whole[1:], 2):
            if not line:
                continue
            try:
                self._take(_trial_of(line))
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"{self.path}, line {number} is no trial of this search: {error}; remove the line and its trial "
                    "is run again"
                ) from error
        if lines[-1] or not whole:
            self._rewrite()

    def _take(self, trial: Trial) -> None:
        """Add a trial that was read; refuse one that cannot have been written."""
        if any(other.number == trial.number or key_of(other.params) == key_of(trial.params) for other in self.trials):
            raise ValueError(f"trial {trial.number} is there already")
        space = {name: Parameter(name, kind, tuple(values)) for name, (kind, *values) in self.about["space"].items()}
        if set(trial.params) != set(space):
            raise ValueError(f"`params` must be values of {sorted(space)}, but are {short(trial.params)}")
        strange = [name for name, value in trial.params.items() if not space[name].holds(value)]
        if strange:
            raise ValueError(f"`{strange[0]}` cannot be {short(trial.params[strange[0]])} in this search")
        self.trials.append(trial)

    def _rewrite(self) -> None:
        entries = [{"search": self.about}, *map(asdict, self.trials)]
        with atomic_write(self.path) as temporary:
            temporary.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")

    def _append(self, entry: dict[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def add(self, trial: Trial) -> None:
        """Write a trial to the disk, then add it."""
        if key_of(trial.params) in {key_of(other.params) for other in self.trials}:
            raise ValueError(f"trial {trial.params} is there already")
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"search": self.about})
        self._append(asdict(trial))
        self.trials.append(trial)

    @property
    def best(self) -> Trial | None:
        """The trial with the best validation score; None if none has a score."""
        best: Trial | None = None
        for trial in self.trials:
            if trial.better_than(best, self.bigger):
                best = trial
        return best

    def ranking(self) -> list[Trial]:
        """Return the trials with a score, the best first."""
        sign = -1.0 if self.bigger else 1.0
        scored = [trial for trial in self.trials if trial.score is not None]
        return sorted(scored, key=lambda trial: (sign * (trial.score or 0.0), trial.number))
