"""Trials on disk: one line of JSON each, written the moment it ends, so that nothing finished is ever lost."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.files import atomic_write
from recbole_bert4rec.tuning.search import key_of

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"


@dataclass
class Trial:
    """A setting and what became of it.

    Attributes:
        number: its place in the search, from 0.
        status: ``finished``; ``stopped`` early by the scheduler; or ``failed``.
        score: best validation score; None where it failed.
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
        """By score; of equal ones the setting that comes first in the search."""
        if self.score is None or other is None or other.score is None:
            return self.score is not None
        mine, its = (self.score, other.score) if bigger else (-self.score, -other.score)
        return (mine, -self.number) > (its, -other.number)


class Study:
    """The file of a search: what is searched in its first line, then its trials.

    Args:
        path: the file, ``.jsonl``.
        about: what the trials depend on; plain values.
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
        lines = self.path.read_text("utf-8").split("\n")
        whole = lines[:-1]  # what follows the last line break was being written when the process was killed
        try:
            header = json.loads(whole[0])["study"] if whole else self.about
            self.trials = [Trial(**json.loads(line)) for line in whole[1:] if line]
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{self.path} is not the file of a search: {error}") from error
        different = [key for key in self.about if header.get(key) != self.about[key]]
        if different:
            said = "; ".join(f"{key} was {header.get(key)!r}, not {self.about[key]!r}" for key in different)
            raise UserError(f"{self.path} belongs to another search ({said}); write elsewhere by --output_file")
        if lines[-1] or not whole:
            self._rewrite()

    def _rewrite(self) -> None:
        entries = [{"study": self.about}, *map(asdict, self.trials)]
        with atomic_write(self.path) as temporary:
            temporary.write_text("".join(json.dumps(entry) + "\n" for entry in entries), "utf-8")

    def _append(self, entry: dict[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def add(self, trial: Trial) -> None:
        """Keep a trial, on disk before anything else happens."""
        if key_of(trial.params) in {key_of(other.params) for other in self.trials}:
            raise ValueError(f"trial {trial.params} is there already")
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"study": self.about})
        self._append(asdict(trial))
        self.trials.append(trial)

    @property
    def best(self) -> Trial | None:
        """The trial with the best validation score."""
        best: Trial | None = None
        for trial in self.trials:
            if trial.better_than(best, self.bigger):
                best = trial
        return best

    def ranking(self) -> list[Trial]:
        """Trials with a score, best first."""
        sign = -1.0 if self.bigger else 1.0
        scored = [trial for trial in self.trials if trial.score is not None]
        return sorted(scored, key=lambda trial: (sign * (trial.score or 0.0), trial.number))
