"""A search as those who run its trials see it: in a process of this machine, or with Ray."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recbole_bert4rec.tuning.objective import Task
from recbole_bert4rec.tuning.progress import SearchProgress
from recbole_bert4rec.tuning.search import Search
from recbole_bert4rec.tuning.trials import Trial


@dataclass(frozen=True)
class Resources:
    """What trials may take.

    Attributes:
        cpus, gpus: of one trial; a share of a GPU is possible.
        max_concurrent: trials at once; None for as many as there is room for.
        address: of a running cluster; None to start Ray here, for this machine alone.
    """

    cpus: int = 1
    gpus: float = 0.0
    max_concurrent: int | None = None
    address: str | None = None


@dataclass(frozen=True)
class Job:
    """The trials of a search that are still to be run.

    Attributes:
        task: what all trials share.
        search: proposes settings, and is told their scores.
        data: of :func:`~recbole_bert4rec.tuning.objective.packed_data`; None where each trial reads the files.
        folder: for the weights of the trials.
        keep: called with every trial that ended.
        progress: shows what goes on.
    """

    task: Task
    search: Search
    data: bytes | None
    folder: Path
    keep: Callable[[Trial], None]
    progress: SearchProgress


def checkpoint_of(folder: Path, number: int) -> str:
    """Return where a trial keeps the weights of its best epoch."""
    return str(folder / f"trial-{number}.pth")
