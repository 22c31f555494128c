"""Runs of run.py in processes of their own, and what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from recbole_bert4rec import checkpoints

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--hidden_size=32", "--inner_size=32", "--n_layers=1", "--MAX_ITEM_LIST_LENGTH=30", "--train_batch_size=2000")
QUIET = ("--show_progress=False", "--use_gpu=False", "--state=error")


def start(folder: Path, *flags: str) -> subprocess.Popen[str]:
    """Start a run on ml-100k in a folder; later flags take the place of earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {flag.partition("=")[0]: flag for flag in (*SMALL, *QUIET, *flags)}
    command = [sys.executable, str(ROOT / "run.py"), *chosen.values()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=folder, env=environment, **pipes)


def run_to_end(folder: Path, *flags: str) -> str:
    """Run to the end; return what is printed.

    Raises:
        RuntimeError: it did not end well.
    """
    process = start(folder, *flags)
    printed, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit {process.returncode}: {printed[-2000:]}")
    return printed


def the_one(folder: Path, ending: str) -> Path:
    """Return the only file with an ending in the folder of checkpoints; best epochs have ``.pth`` alone."""
    files = [one for one in (folder / "saved").glob(f"*{ending}") if (".last." in one.name) == (".last." in ending)]
    if len(files) != 1:
        raise RuntimeError(f"{folder} has {[one.name for one in files]}, not one {ending}")
    return files[0]


def is_finished(folder: Path) -> bool:
    """Return whether a run of a folder was tested."""
    records = [json.loads(file.read_text("utf-8")) for file in (folder / "saved").glob("*.json")]
    return any("unfinished" not in record for record in records)


def outcome(folder: Path) -> dict[str, Any]:
    """Return all that must not depend on interruptions: both checkpoints, and the record without its times."""
    found: dict[str, Any] = {}
    for ending in (".pth", ".last.pth"):
        state = checkpoints.read(the_one(folder, ending))
        found[ending] = {name: value for name, value in state.items() if name not in ("config", "callbacks")}
    record = json.loads(the_one(folder, ".json").read_text("utf-8"))
    found["epochs"] = [{key: value for key, value in row.items() if "second" not in key} for row in record["epochs"]]
    keys = ("best_epoch", "best_valid_score", "best_valid_result", "test_result")
    return found | {key: record[key] for key in keys}


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """List where two outcomes are not the same, bit for bit."""
    if isinstance(one, torch.Tensor):
        return [] if torch.equal(one, other) else [place]
    if isinstance(one, dict) and isinstance(other, dict):
        missing = [f"{place}/{key} (one has it)" for key in one.keys() ^ other.keys()]
        return missing + [
            found for key in one.keys() & other.keys() for found in differences(one[key], other[key], f"{place}/{key}")
        ]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        pairs = zip(one, other, strict=True)
        return [found for n, pair in enumerate(pairs) for found in differences(*pair, f"{place}/{n}")]
    return [] if one == other else [place]
