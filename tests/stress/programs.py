"""Runs of run.py in processes of their own, and what they leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from recbole_bert4rec import checkpoints
from tests.helpers.programs import ENVIRONMENT, ROOT, flags_of

SMALL = ("--hidden_size=32", "--inner_size=32", "--n_layers=1", "--MAX_ITEM_LIST_LENGTH=30", "--train_batch_size=2000")


def start(folder: Path, *flags: str) -> subprocess.Popen[str]:
    """Start a run in a folder, by default on ml-100k; later flags take the place of earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {flag.partition("=")[0]: flag for flag in (*SMALL, "--state=error", *flags_of({}), *flags)}
    command = [sys.executable, str(ROOT / "run.py"), *chosen.values()]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, **pipes)


def run_to_end(folder: Path, *flags: str) -> None:
    """Run to the end; raise RuntimeError if it does not end well."""
    process = start(folder, *flags)
    printed, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit {process.returncode}: {printed[-2000:]}")


def records_of(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the runs of a folder, one a training."""
    return [json.loads(file.read_text("utf-8")) for file in (folder / "saved").glob("*.json")]


def outcome(folder: Path) -> dict[str, Any]:
    """Return all that must not depend on interruptions: both checkpoints, and the record without its times."""
    (record,) = records_of(folder)
    found: dict[str, Any] = {}
    for file in (record["checkpoint"], checkpoints.last_of(record["checkpoint"])):
        state = checkpoints.read(folder / file)
        found[file.partition(".")[2]] = {key: state[key] for key in state if key not in ("config", "callbacks")}
    found["epochs"] = [{key: value for key, value in row.items() if "second" not in key} for row in record["epochs"]]
    keys = ("best_epoch", "best_valid_score", "best_valid_result", "test_result")
    return found | {key: record[key] for key in keys}
