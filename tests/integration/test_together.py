"""Processes that train together compute what one does, however they are started, and whoever of them is lost."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

import recbole_bert4rec.logs.convert as conversions
from tests.helpers.data import CYCLE
from tests.helpers.programs import ENVIRONMENT, ROOT, assert_refused, does, forked_of, run_here, run_py, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.integration]

EXACT = {
    "objective": "next",  # no masks, which each process draws for itself
    "hidden_dropout_prob": "0",
    "epochs": "4",
    "learning_rate": "0.01",
    "train_batch_size": "200",
    "use_gpu": "False",
    "show_progress": "False",
    "metrics": "['Hit','NDCG','MRR','GAUC']",
}
WIDE = [(f"u{user}", f"i{(7 * user + 5 * step) % 160}", float(step)) for user in range(161) for step in range(9)]
"""Users who go on in steps through 160 items."""
FIXED = """
import torch
from recbole_bert4rec import BERT4Rec
from recbole_bert4rec.core.sampling import Negatives

class Always(torch.nn.Module):
    def draw(self, count, generator):
        return Negatives(torch.arange(3, 150, 7), torch.zeros(21))

class Fixed(BERT4Rec):
    def __init__(self, config, dataset):
        super().__init__(config, dataset)
        self.negatives = Always()

    def _negatives_outside(self, sequences, shown, generator):
        return shown.labels % (self.n_items - 1) + 1
"""
"""BERT4Rec with the same negatives in any number of processes, which otherwise draw their own."""


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a run to end; return its record."""
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return the_record()


def the_record() -> dict[str, Any]:
    """Return the one record of the current folder, and take it away."""
    (path,) = Path("saved").glob("*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return found


def start(*words: str, **options: str) -> subprocess.Popen[str]:
    """Start Python with words and options."""
    flags = [f"--{key}={value}" for key, value in options.items()]
    command = [sys.executable, *words, *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Compare losses to float32's precision, and metrics to the last digit."""
    losses = [[row["train_loss"] for row in record["epochs"]] for record in (one, other)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert losses[0][-1] < 0.8 * losses[0][0]
    for name in ("best_valid_result", "test_result", "best_epoch"):
        assert one[name] == other[name]


def test_two_processes_of_torchrun_learn_and_rank_what_one_does_and_any_number_ranks_anew(write_inter: Any) -> None:
    options = {**write_inter(CYCLE[:-4]), **EXACT}  # an odd number of users, whom two processes cannot halve
    assert run_here(**options).returncode == 0
    alone = the_record()
    torchrun = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=5723", str(ROOT / "run.py")]
    assert_same(alone, ended(start(*torchrun, **options)))
    best = max(Path("saved").glob("*[0-9].pth"), key=lambda file: file.stat().st_mtime)
    for flags in ([], ["--nproc=2"]):
        assert run_here(*flags, f"--resume={best}", **{**options, "epochs": "1"}).returncode == 0
        assert the_record()["test_result"] == alone["test_result"]


def test_two_processes_map_a_large_log_from_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pd.DataFrame(CYCLE[:-4], columns=["user_id", "item_id", "timestamp"])
    rows.to_parquet(tmp_path / "log.parquet", index=False)
    monkeypatch.setattr(conversions, "LARGE", 0)
    folder = conversions.convert(str(tmp_path / "log.parquet"), *rows.columns)
    options = {"dataset": folder.name, "data_path": str(tmp_path), "exact_time": "True", **EXACT}
    assert run_here(**options).returncode == 0
    alone = the_record()
    process = start(str(ROOT / "run.py"), "--nproc=2", **options)
    assert process.stderr is not None
    maps: list[str] = []
    for line in process.stderr:
        if line.startswith("epoch 1 of 4"):
            maps = [Path(f"/proc/{rank.pid}/maps").read_text() for rank in forked_of(process)]
    assert_same(alone, ended(process))
    (items,) = folder.rglob("items.int32")
    assert len(maps) == 2
    assert all(re.search(rf" {items.stat().st_ino} +{items}$", one, re.MULTILINE) for one in maps)


@pytest.mark.parametrize(
    "more",
    [
        {"loss_type": "sampled_softmax", "model": "fixed:Fixed", "clip_grad_norm": "None"},
        {"loss_type": "BPR", "model": "fixed:Fixed", "seen_bias": "False"},
        {"loss_type": "gBCE", "model": "fixed:Fixed", "learner": "sgd", "learning_rate": "1"},
        {"loss_type": "CE", "eval_args": "{'mode': 'pop100'}", "candidates": "paper"},
    ],
)
def test_two_processes_learn_and_rank_what_one_does_with_any_loss(more: dict[str, str], write_inter: Any) -> None:
    Path("fixed.py").write_text(FIXED)
    options = {**write_inter(WIDE), **EXACT, "metrics": "['Hit','NDCG','MRR']", **more}
    assert run_here(**options).returncode == 0
    alone = the_record()
    assert run_here("--nproc=2", **options).returncode == 0
    assert_same(alone, the_record())


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_a_worker_that_is_lost_right_after_the_first_checkpoint_changes_nothing(write_inter: Any) -> None:
    options = {**write_inter(CYCLE[:-4]), **EXACT}
    assert run_here("--nproc=2", **options).returncode == 0
    whole = the_record()
    for file in Path("saved").iterdir():
        file.unlink()
    process = start(str(ROOT / "run.py"), "--engine=ray", "--num_workers=2", **options)
    wait_for(lambda: process.poll() is not None or list(Path().glob("saved/*.last.pth")))
    workers = [one for one in psutil.Process(process.pid).children(recursive=True) if does(one, "TrainWorker")]
    assert len(workers) == 2
    workers[0].kill()
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert "a worker was lost" in said
    record = the_record()
    assert [row["epoch"] for row in record["epochs"]] == [0, 1, 2, 3]
    assert_same(whole, record)
    assert len(list(Path().glob("saved/*.last.pth"))) == 1
    assert not list(Path().glob(".ray-*"))


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_a_mistake_in_workers_of_ray_is_one_line(write_inter: Any, ray_address: str) -> None:
    log = write_inter([*CYCLE[:5], ("a", "b", "soon")])
    done = run_py("--engine=ray", "--num_workers=2", f"--ray_address={ray_address}", **log)
    assert_refused(done, "'timestamp'", "'soon'")


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_on_ray_which_can_go_on(number: signal.Signals, write_inter: Any, ray_address: str) -> None:
    options = {**write_inter(CYCLE[:-4]), **EXACT, "epochs": "4000", "stopping_step": "4000"}
    process = start(str(ROOT / "run.py"), "--engine=ray", f"--ray_address={ray_address}", **options)
    wait_for(lambda: process.poll() is not None or list(Path().glob("saved/*.last.pth")))
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert re.search("interrupted; the same command with --resume=saved/.*.last.pth goes on", said)
    assert "Traceback" not in said
    assert not list(Path().glob(".ray-*"))


@pytest.mark.parametrize(("flag", "named"), [("--mask_ratio=7", "`mask_ratio`"), ("--model=GRU4Rec", "--engine=ray")])
def test_what_the_engine_cannot_run_is_refused_before_ray_begins(flag: str, named: str, write_inter: Any) -> None:
    done = run_here("--engine=ray", "--ray_address=127.0.0.1:1", flag, **write_inter(CYCLE))
    assert_refused(done, named)


def ended_by(number: signal.Signals, write_inter: Any) -> tuple[int, str]:
    """The exit code and the screen of a run of which one process gets a signal in its second epoch."""
    process = start(str(ROOT / "run.py"), "--nproc=2", **{**write_inter(CYCLE), **EXACT, "epochs": "200"})
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith("epoch   1 of 200"):
            forked_of(process)[0].send_signal(number)
    code = process.wait(300)
    assert "Traceback" not in said
    return code, said


@pytest.mark.parametrize(
    ("number", "code", "named"), [(signal.SIGTERM, 143, "--resume=saved/"), (signal.SIGKILL, 2, "SIGKILL")]
)
def test_a_signal_to_one_process_ends_the_run_in_one_line(
    number: signal.Signals, code: int, named: str, write_inter: Any
) -> None:
    found, said = ended_by(number, write_inter)
    assert found == code
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert named in (errors or said.splitlines())[-1]
    assert len(errors) == (code == 2)
