"""Actors of Ray Data answer a folder of users as one process does, and the loss of one changes nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from recbole_bert4rec.logs import interactions
from tests.helpers.programs import ENVIRONMENT, does, main_here, wait_for
from tests.helpers.trained import trained

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.ray, pytest.mark.xdist_group("ray")]
PART, PARTS = 1 << 14, 12
ASK = ["recommend", "--checkpoint=m.pth", "--device=cpu", "--k=3"]
PROGRAM = f"""
import sys
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.logs import interactions
interactions._PART = {PART}
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def users(write_inter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint, ``m.pth``, and ``users``, a folder whose users stand in several files; its parts are small."""
    monkeypatch.setattr(interactions, "_PART", PART)
    Path(trained(write_inter).file).rename("m.pth")
    draw, items = np.random.default_rng(0), np.array([f"i{number}" for number in range(1, 15)])
    Path("users").mkdir()
    for number in range(6):
        rows = PARTS * PART // 6
        columns = {"user_id": draw.integers(0, rows // 2, rows), "item_id": draw.choice(items, rows)}
        times = np.arange(rows) + number * rows
        pd.DataFrame({**columns, "timestamp": times}).to_parquet(Path("users") / f"{number}.parquet")


def ask(*flags: str) -> subprocess.Popen[str]:
    """Start the command on Ray."""
    command = [sys.executable, "-c", PROGRAM, *ASK, "--output=top.parquet", "--engine=ray", *flags]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def test_actors_answer_as_one_process_and_a_lost_one_loses_nothing(users: None) -> None:
    assert main_here([*ASK, "--input=users", "--output=alone.parquet"]).returncode == 0
    process = ask("--input=users", "--num_workers=2")
    # the first answer makes it
    wait_for(lambda: process.poll() is not None or list(Path().glob(".top.parquet.*.tmp")))
    actors = [one for one in psutil.Process(process.pid).children(recursive=True) if does(one, "MapWorker")]
    assert len(actors) == 2
    actors[0].kill()
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    pd.testing.assert_frame_equal(pd.read_parquet("top.parquet"), pd.read_parquet("alone.parquet"), atol=1e-5)


def test_mistakes_are_one_line_and_leave_nothing_behind(users: None, ray_address: str) -> None:
    dates = np.where(np.arange(100) % 2, "01/02/2026", "02/01/2026")
    pd.DataFrame({"user_id": np.arange(100), "item_id": "i1", "timestamp": dates}).to_csv("dates.csv", index=False)
    Path("users/7.parquet").write_bytes(Path("users/1.parquet").read_bytes()[:-5000] + bytes(5000))
    for file, named in (("users", "users/7.parquet"), ("dates.csv", "dates.csv: 'timestamp'")):
        process = ask(f"--input={file}", f"--ray_address={ray_address}")
        _, said = process.communicate(timeout=600)
        assert process.returncode == 2, said
        assert named in said
        assert "Traceback" not in said
        assert not [*Path().glob("*top.parquet*")]
