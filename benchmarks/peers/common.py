"""What the contestants of training_speed.py share: the task, and the line that each of them prints."""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import numpy as np
import torch


def finish() -> None:
    """Wait for what a GPU still computes."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Task:
    """Sequences of users, cut to their last ``length`` items, and the size of the model, from a JSON argument."""

    def __init__(self) -> None:
        for key, value in json.loads(sys.argv[1]).items():
            setattr(self, key, value)
        with np.load(self.sequences) as file:
            arrays = dict(file)
        ends = np.cumsum(arrays["lengths"])
        begins = ends - np.minimum(arrays["lengths"], self.length)
        self.histories = [arrays["items"][begin:end] for begin, end in zip(begins, ends, strict=True)]
        self.n_items = int(arrays["n_items"])  # padding (0) not counted

    sequences: str
    length: int
    hidden_size: int
    batch: int
    mask_ratio: float
    epochs: int
    architecture: str = "BERT4Rec"
    device: str = "cpu"


class Stopwatch:
    """Seconds and masked positions of each epoch, printed as one line of JSON after each."""

    def __init__(self, version: str) -> None:
        self.record: dict[str, Any] = {"version": version, "seconds": [], "masked": []}

    def start(self) -> None:
        self.masked = 0
        self._began = time.perf_counter()

    def count(self, masked: Any) -> None:
        self.masked += int(masked)

    def stop(self) -> None:
        finish()
        self.add(time.perf_counter() - self._began, self.masked)

    def add(self, seconds: float, masked: int) -> None:
        self.record["seconds"].append(seconds)
        self.record["masked"].append(masked)
        self.record["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(self.record), flush=True)
