"""run_hyper.py as a user runs it: on ml-100k, with real Ray, killed and gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from recbole_bert4rec.tuning.cli import main

ROOT = Path(__file__).resolve().parents[2]
FAST = ["--epochs=2", "--train_batch_size=256", "--hidden_size=16", "--inner_size=16", "--n_layers=1", "--topk=[10]"]
FAST += ["--metrics=['NDCG']", "--valid_metric=NDCG@10"]
SPACE = "learning_rate choice [0.01, 0.003]\nmask_ratio choice [0.2, 0.4]\n"
pytestmark = pytest.mark.integration


def command(folder: Path, *flags: str, space: str = SPACE) -> list[str]:
    (folder / "some.hyper").write_text(space)
    return [sys.executable, str(ROOT / "run_hyper.py"), "--params_file=some.hyper", *FAST, *flags]


def search(folder: Path, *flags: str, space: str = SPACE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *flags, space=space), cwd=folder, capture_output=True, text=True, timeout=300)


def trials(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "hyper.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def scores(folder: Path) -> dict[str, Any]:
    return {json.dumps(trial["params"]): trial["score"] for trial in trials(folder)}


@pytest.fixture(scope="module")
def hyperopt_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("hyperopt")
    done = search(folder, "--cpus_per_trial=1")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_every_combination_runs_once_and_the_winner_is_tested_once(hyperopt_run: tuple[Path, str]) -> None:
    folder, said = hyperopt_run
    found = trials(folder)
    assert len(found) == len({json.dumps(trial["params"]) for trial in found}) == 4
    assert all(trial["status"] == "finished" and trial["epochs"] == 2 for trial in found)
    assert said.count("test of best") == 1
    text = (folder / "hyper.result").read_text()
    assert text.count("Valid result") == 4
    assert text.count("Test result") == 1
    assert not (folder / "hyper.trials").exists()
    for name in ("hyper.pth", "hyper.html", "hyper.coordinates.png", "hyper.best.yaml"):
        assert (folder / name).stat().st_size > 0


def test_the_best_options_are_a_file_that_run_py_takes(hyperopt_run: tuple[Path, str]) -> None:
    folder, _ = hyperopt_run
    best = max(trials(folder), key=lambda trial: (trial["score"], -trial["number"]))
    flags = ["--config_files=hyper.best.yaml", "--show_progress=False", "--checkpoint_dir=again"]
    code = f"import torch, sys, runpy; torch.set_num_threads(1); sys.argv = {['run.py', *flags]!r}; "
    code += f"runpy.run_path({str(ROOT / 'run.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300)
    (record,) = (folder / "again").glob("*.json")
    assert json.loads(record.read_text())["best_valid_score"] == best["score"], done.stderr


def test_ray_finds_the_same_scores_two_at_a_time(hyperopt_run: tuple[Path, str], tmp_path: Path) -> None:
    done = search(tmp_path, "--tool=Ray", "--cpus_per_trial=1", "--max_concurrent=2")
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path) == scores(hyperopt_run[0])


@pytest.mark.parametrize("tool", ["Hyperopt", "Ray"])
def test_a_killed_search_goes_on_without_losing_or_repeating_a_trial(
    hyperopt_run: tuple[Path, str], tmp_path: Path, tool: str
) -> None:
    flags = [f"--tool={tool}", "--cpus_per_trial=1"]
    process = subprocess.Popen(
        command(tmp_path, *flags), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _wait_for(lambda: (tmp_path / "hyper.jsonl").exists() and len(trials(tmp_path)) >= 1)
    family = [process, *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        os.kill(member.pid, signal.SIGKILL) if psutil.pid_exists(member.pid) else None
    process.wait()
    before = trials(tmp_path)
    assert 1 <= len(before) < 4
    refused = search(tmp_path, *flags)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    done = search(tmp_path, *flags, "--resume")
    assert done.returncode == 0, done.stderr
    assert trials(tmp_path)[: len(before)] == before
    assert len(trials(tmp_path)) == 4
    assert scores(tmp_path) == scores(hyperopt_run[0])


@pytest.mark.parametrize("tool", ["Hyperopt", "Ray"])
def test_a_setting_that_fails_is_listed_with_its_reason_and_stops_no_other(tmp_path: Path, tool: str) -> None:
    space = "n_heads choice [2, 3]\ninner_size choice [16, 1000000000000]\n"
    flags = [flag for flag in FAST if not flag.startswith("--inner_size")]
    (tmp_path / "some.hyper").write_text(space)
    done = subprocess.run(
        [sys.executable, str(ROOT / "run_hyper.py"), "--params_file=some.hyper", f"--tool={tool}", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = {(t["params"]["n_heads"], t["params"]["inner_size"]): t for t in trials(tmp_path)}
    assert found[2, 16]["status"] == "finished"
    assert "memory" in found[2, 10**12]["reason"]
    assert all("divisible by `n_heads`" in found[3, size]["reason"] for size in (16, 10**12))
    assert "3 failed" in done.stdout


@pytest.mark.parametrize("tool", ["Hyperopt", "Ray"])
def test_a_trial_whose_process_is_killed_is_tried_again_and_the_search_ends_well(tmp_path: Path, tool: str) -> None:
    space = "learning_rate choice [0.01, 0.003]\n"
    flags = [f"--tool={tool}", "--cpus_per_trial=1", "--epochs=12"]
    process = subprocess.Popen(
        command(tmp_path, *flags, space=space),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    weights = tmp_path / "hyper.trials" / "trial-0.pth"
    _wait_for(weights.exists)  # an epoch is over
    workers = [child for child in psutil.Process(process.pid).children(recursive=True) if _is_worker(child, tool)]
    assert workers
    for worker in workers:
        worker.kill()
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert [trial["status"] for trial in trials(tmp_path)] == ["finished", "finished"], said


def _is_worker(process: psutil.Process, tool: str) -> bool:
    words = " ".join(process.cmdline())
    return "spawn_main" in words if tool == "Hyperopt" else words.startswith("ray::") and "IDLE" not in words


def _wait_for(condition: Any) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_asha_stops_trials_early_and_keeps_a_winner(tmp_path: Path) -> None:
    space = "learning_rate choice [0.01, 0.001, 0.0001, 0.00001]\nmask_ratio choice [0.2, 0.4]\n"
    flags = ["--tool=Ray", "--scheduler=asha", "--epochs=9"]
    done = search(tmp_path, *flags, space=space)
    assert done.returncode == 0, done.stderr
    found = trials(tmp_path)
    assert len(found) == 8
    assert {"stopped", "finished"} >= {trial["status"] for trial in found} >= {"stopped"}
    assert sum(trial["epochs"] for trial in found) < 72
    assert "stopped early" in done.stdout


def test_other_models_and_continuous_spaces_are_searched(tmp_path: Path) -> None:
    space = "learning_rate loguniform10 1e-4,1e-2\ntrain_batch_size quniform 4096,8192,2048\n"
    flags = ["--model=GRU4Rec", "--algo=bayes", "--max_evals=2", "--hidden_size=8", "--embedding_size=8"]
    fast = [flag for flag in FAST if flag.split("=")[0] in ("--topk", "--metrics", "--valid_metric")]
    (tmp_path / "some.hyper").write_text(space)
    done = subprocess.run(
        [sys.executable, str(ROOT / "run_hyper.py"), "--params_file=some.hyper", "--epochs=1", *fast, *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert len(trials(tmp_path)) == 2
    assert all(isinstance(trial["params"]["train_batch_size"], int) for trial in trials(tmp_path))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--max_evals=3"], "--max_evals goes with --algo=random or bayes"),
        (
            ["--scheduler=asha", "--max_concurrent=0"],
            "--scheduler needs --tool=Ray; --max_concurrent must be at least 1",
        ),
        (["--learning_rate=0.1"], "`learning_rate` is in the parameter file and on the command line"),
        (["--model=BERT4Recc"], "did you mean"),
        (["--dataset=nowhere"], "nowhere"),
        (["--metric=NDCG@99"], "`valid_metric` must be one of"),
        (["--eval_step=0"], "`eval_step` must be at least 1"),
        (["--tool=Ray", "--ray_address=127.0.0.1:1"], "--ray_address=127.0.0.1:1"),
        (["--tool=Ray", "--cpus_per_trial=99"], "a trial needs 99 CPUs"),
        (["--config_files=missing.yaml"], "missing.yaml cannot be read"),
        (["nonsense"], "argument 'nonsense' is not understood"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing_behind(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command(tmp_path, *flags)[2:]) == 2
    assert said in capsys.readouterr().err
    assert not {path.name for path in tmp_path.iterdir()} - {"some.hyper", "log_tensorboard", "log", "saved"}
