"""Trials on disk: a line of JSON each, written the moment the trial ends, so that nothing finished is lost."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from recbole_bert4rec.system.errors import UserError, short
from recbole_bert4rec.system.files import atomic_write

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


class TrialLog:
    """The file of a search: its first line describes the search, and each other line is a trial."""

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
            header = json.loads(whole[0])["search"] if whole else self.about
            self.trials = [Trial(**json.loads(line)) for line in whole[1:] if line]
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{self.path} is not the file of a search: {error}") from error
        different = [key for key in self.about if header.get(key) != self.about[key]]
        if different:
            changes = "; ".join(
                f"{key} was {short(header.get(key))}, not {short(self.about[key])}" for key in different
            )
            raise UserError(f"{self.path} belongs to another search ({changes}); write elsewhere by --output_file")
        if lines[-1] or not whole:
            self._rewrite()

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
