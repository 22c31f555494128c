"""Whole programs that a signal ends: exit codes, what they say, and that they go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.data import CYCLE
from tests.helpers.programs import ENVIRONMENT, ROOT

FLAGS = ("--hidden_size=16", "--stopping_step=1000", "--show_progress=False", "--use_gpu=False")
pytestmark = [pytest.mark.integration, pytest.mark.slow]


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / program), *FLAGS, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)


def end_after(process: subprocess.Popen[str], pattern: str, number: int) -> str:
    """Send a signal once a file is there; return what was printed."""
    while process.poll() is None and not list(Path().glob(pattern)):
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number, printed
    assert "Traceback" not in printed
    return printed[printed.rindex("interrupted; ") :]


def run_to_end(program: str, *arguments: str) -> str:
    process = start(program, *arguments)
    printed, _ = process.communicate(timeout=600)
    assert process.returncode == 0, printed
    return printed


@pytest.mark.parametrize(("number", "more"), [(signal.SIGTERM, []), (signal.SIGINT, ["--nproc=2", "--port=5711"])])
def test_a_run_says_how_it_goes_on_and_does(number: int, more: list[str], write_inter: Any) -> None:
    asked = [f"--{key}={value}" for key, value in write_inter(CYCLE).items()] + ["--epochs=120", *more]
    said = end_after(start("run.py", *asked), "saved/*.last.pth", number)
    (last,) = Path("saved").glob("*.last.pth")
    assert f"--resume={last}" in said
    assert "Resume training from epoch" in run_to_end("run.py", "--resume", *asked)
    (record,) = Path("saved").glob("*.json")
    assert [row["epoch"] for row in json.loads(record.read_text())["epochs"]] == list(range(120))


def test_a_comparison_goes_on_inside_a_run(write_inter: Any) -> None:
    asked = [f"--{key}={value}" for key, value in write_inter(CYCLE).items()]
    asked += ["--model=BERT4Rec,Pop", "--epochs=120", "--output_dir=out"]
    end_after(start("run.py", *asked), "out/runs/BERT4Rec-*.last.pth", signal.SIGTERM)
    run_to_end("run.py", *asked)
    (log,) = Path("out/runs").glob("BERT4Rec-*.log")
    assert "Resume training from epoch" in log.read_text()
    (record,) = Path("out/runs").glob("BERT4Rec-*.json")
    assert [row["epoch"] for row in json.loads(record.read_text())["epochs"]] == list(range(120))
    assert not list(Path("out").rglob("*.last.pth"))


def test_a_search_goes_on_inside_a_trial(write_inter: Any) -> None:
    Path("space.hyper").write_text("mask_ratio choice [0.2, 0.4]\n")
    asked = [f"--{key}={value}" for key, value in write_inter(CYCLE).items()]
    asked += ["--params_file=space.hyper", "--epochs=120"]
    end_after(start("run_hyper.py", *asked), "hyper.runs/*.last.pth", signal.SIGTERM)
    run_to_end("run_hyper.py", *asked)
    records = [json.loads(file.read_text()) for file in Path("hyper.runs").glob("*.json")]
    assert [len(record["epochs"]) for record in records] == [120, 120]
    assert not list(Path("hyper.runs").glob("*.last.pth"))
