"""Whole programs that a signal ends: exit codes, what they say, and that they go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.data import CYCLE
from tests.helpers.programs import ENVIRONMENT, ROOT, flags_of, run_here, wait_for

EPOCHS = 60
pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def asked(write_inter: Any) -> dict[str, str]:
    return {**write_inter(CYCLE), "hidden_size": "16", "stopping_step": "1000", "epochs": str(EPOCHS)}


def end_after(pattern: str, number: int, *words: str, **options: str) -> str:
    """Start a run, and send it a signal once a file is there; return what was printed at its end."""
    command = [sys.executable, str(ROOT / "run.py"), *words, *flags_of(options)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, **pipes, env=ENVIRONMENT)
    wait_for(lambda: process.poll() is not None or list(Path().glob(pattern)))
    process.send_signal(number)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number, printed
    assert "Traceback" not in printed
    return printed[printed.rindex("interrupted; ") :]


@pytest.mark.parametrize(("number", "words"), [(signal.SIGTERM, []), (signal.SIGINT, ["--nproc=2", "--port=5711"])])
def test_a_run_says_how_it_goes_on_and_does(number: int, words: list[str], asked: dict[str, str]) -> None:
    said = end_after("saved/*.last.pth", number, *words, **asked)
    (last,) = Path("saved").glob("*.last.pth")
    assert f"--resume={last}" in said
    done = run_here("--resume", *words, **asked)
    assert done.returncode == 0, done.stderr
    (record,) = Path("saved").glob("*.json")
    assert [row["epoch"] for row in json.loads(record.read_text())["epochs"]] == list(range(EPOCHS))
    assert any("Resume training from epoch" in log.read_text() for log in Path("log/BERT4Rec").glob("*.log"))


def test_a_comparison_goes_on_inside_a_run_and_keeps_what_was_finished(asked: dict[str, str]) -> None:
    words = ["--model=Pop,BERT4Rec", "--output_dir=out"]
    end_after("out/runs/BERT4Rec-*.last.pth", signal.SIGTERM, *words, **asked)
    (pop,) = Path("out/runs").glob("Pop-*.json")
    before = pop.read_text()
    done = run_here(*words, **asked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("kept from before") == 1
    assert pop.read_text() == before
    (log,) = Path("out/runs").glob("BERT4Rec-*.log")
    assert "Resume training from epoch" in log.read_text()
    (record,) = Path("out/runs").glob("BERT4Rec-*.json")
    assert [row["epoch"] for row in json.loads(record.read_text())["epochs"]] == list(range(EPOCHS))
    assert not list(Path("out").rglob("*.last.pth"))
