"""Actors of Ray Data answer a folder of users as one process does, and the loss of one changes nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from tests.helpers.programs import ENVIRONMENT, does
from tests.helpers.trained import trained

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.ray, pytest.mark.xdist_group("one_at_a_time")]
ray = pytest.importorskip("ray")
USERS, FILES = 24_000, 6


def ask(*flags: str) -> subprocess.Popen[str]:
    """Start the command."""
    command = [sys.executable, "-m", "recbole_bert4rec", "recommend", "--checkpoint=m.pth", "--device=cpu", "--k=3"]
    return subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


@pytest.fixture
def users(write_inter: Any) -> None:
    """A checkpoint, ``m.pth``, and ``users``, a folder of some megabytes whose users stand in several files."""
    Path(trained(write_inter).file).rename("m.pth")
    draw, items = np.random.default_rng(0), np.array([f"i{number}" for number in range(1, 15)])
    Path("users").mkdir()
    for number in range(FILES):
        rows = USERS * 10 // FILES
        names = np.char.add("somebody with a long name ", draw.integers(0, USERS, rows).astype(str))
        columns = {"user_id": names, "item_id": draw.choice(items, rows), "timestamp": np.arange(rows) + number * rows}
        file = Path("users") / f"{number}.parquet"
        pd.DataFrame(columns).to_parquet(file, compression=None, use_dictionary=False)  # type: ignore[call-overload]


def ordered(path: str) -> pd.DataFrame:
    return pd.read_parquet(path).sort_values(["user_id", "rank"]).reset_index(drop=True)


def test_actors_answer_as_one_process_and_a_lost_one_loses_nothing(users: None) -> None:
    alone = ask("--input=users", "--output=alone.parquet")
    assert alone.wait(300) == 0
    process = ask("--input=users", "--output=top", "--engine=ray", "--num_workers=2")
    _wait_for_answers(process)
    actors = [one for one in psutil.Process(process.pid).children(recursive=True) if does(one, "MapWorker")]
    assert len(actors) == 2
    actors[0].kill()
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert len(list(Path("top").iterdir())) > 4
    pd.testing.assert_frame_equal(ordered("top"), ordered("alone.parquet"), atol=1e-5)
    assert not Path("top.parts").exists()


def _wait_for_answers(process: subprocess.Popen[str]) -> None:
    while not list(Path("top.parts/answers").glob("*.parquet")):
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.05)


def test_a_stopped_command_goes_on_without_ray_and_doubles_nothing(users: None) -> None:
    process = ask("--input=users", "--output=top", "--engine=ray", "--num_workers=2")
    _wait_for_answers(process)
    for one in (process, *psutil.Process(process.pid).children(recursive=True)):
        one.kill()
    process.communicate()
    again = ask("--input=users", "--output=top")
    _, said = again.communicate(timeout=600)
    assert again.returncode == 0, said
    assert not pd.read_parquet("top").duplicated(["user_id", "rank"]).any()
    every = {name for file in Path("users").iterdir() for name in pd.read_parquet(file)["user_id"]}
    assert set(pd.read_parquet("top")["user_id"]) == every


def test_a_mistake_in_the_files_is_one_line(users: None) -> None:
    Path("users/7.parquet").write_bytes(Path("users/1.parquet").read_bytes()[:-100_000] + bytes(100_000))
    process = ask("--input=users", "--output=top", "--engine=ray")
    _, said = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "users/7.parquet" in said
    assert "Traceback" not in said


def test_a_folder_with_something_else_is_not_replaced(users: None) -> None:
    Path("top").mkdir()
    Path("top/mine.txt").write_text("mine")
    process = ask("--input=users", "--output=top")
    _, said = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "--output=top would replace top/mine.txt, which is no .parquet file; name a new folder" in said
    assert Path("top/mine.txt").read_text() == "mine"
