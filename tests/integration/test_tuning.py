"""run_hyper.py as a user runs it: on ml-100k or a small log, with real Ray, killed and gone on with."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

from recbole_bert4rec.cli.main import main
from tests.helpers.data import inter_writer
from tests.helpers.programs import ROOT, ROWS, does, main_here, wait_for

FAST = ["--epochs=2", "--batch_sequences=256", "--hidden_size=16", "--inner_size=16", "--n_layers=1", "--topk=[10]"]
FAST += ["--metrics=['NDCG']", "--valid_metric=NDCG@10"]
SPACE = "learning_rate choice [0.01, 0.003]\nmask_ratio choice [0.2, 0.4]\n"
TOOLS = ["Hyperopt", pytest.param("Ray", marks=pytest.mark.ray)]
# one after the other, and never beside another Ray: what is killed, and how soon, is the subject of several
pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("one_at_a_time")]


def command(folder: Path, *flags: str, space: str = SPACE) -> list[str]:
    """Of a small search; ``flags`` take the place of those of the same name, and those of the space are left out."""
    (folder / "some.hyper").write_text(space)
    taken = {flag.split("=")[0] for flag in flags} | {f"--{line.split()[0]}" for line in space.splitlines()}
    fast = [flag for flag in FAST if flag.split("=")[0] not in taken]
    return [sys.executable, str(ROOT / "run_hyper.py"), "--params_file=some.hyper", *fast, *flags]


def search(folder: Path, *flags: str, space: str = SPACE) -> subprocess.CompletedProcess[str]:
    """Run a search to its end: in this process, or in one of its own if it starts Ray, which ends with it."""
    words = command(folder, *flags, space=space)
    if "--tool=Ray" in flags:
        return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return main_here(words[2:], "tune")


def started(folder: Path, *flags: str, space: str = SPACE) -> subprocess.Popen[str]:
    """A search that runs while the test goes on."""
    arguments = command(folder, *flags, space=space)
    return subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def small_log(folder: Path) -> list[str]:
    """Write a log of 60 users; return the flags that take it in place of ml-100k."""
    return [f"--{key}={value}" for key, value in inter_writer(folder)(ROWS).items()]


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


@pytest.mark.slow
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
    for name in ("hyper.pth", "hyper.html", "hyper.best.yaml"):
        assert (folder / name).stat().st_size > 0


@pytest.mark.slow
def test_the_best_options_are_a_file_that_run_py_takes(hyperopt_run: tuple[Path, str]) -> None:
    folder, _ = hyperopt_run
    best = max(trials(folder), key=lambda trial: (trial["score"], -trial["number"]))
    flags = ["--config_files=hyper.best.yaml", "--show_progress=False", "--checkpoint_dir=again"]
    code = f"import torch, sys, runpy; torch.set_num_threads(1); sys.argv = {['run.py', *flags]!r}; "
    code += f"runpy.run_path({str(ROOT / 'run.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=600)
    (record,) = (folder / "again").glob("*.json")
    assert json.loads(record.read_text())["best_valid_score"] == best["score"], done.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_recboles_own_objective_reports_to_ray(tmp_path: Path) -> None:
    program = f"""
import recbole_bert4rec, ray
from ray import tune
from recbole.quick_start import objective_function
ray.init(address="local", include_dashboard=False, log_to_driver=False, num_cpus=1)
options = {{"model": "BERT4Rec", "dataset": "ml-100k", "show_progress": False, "checkpoint_dir": {str(tmp_path)!r}}}
options |= {{"epochs": 1, "hidden_size": 16, "n_layers": 1, "batch_sequences": 256}}

def trial(_):
    objective_function(config_dict=options)  # what a trial returns is reported too, after it

(result,) = tune.Tuner(trial).fit()
print("reported", result.error, result.metrics["ndcg@10"] > 0)
"""
    home = {**os.environ, "HOME": str(tmp_path)}  # where Ray writes
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=600, env=home
    )
    assert "reported None True" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_killed_search_goes_on_without_losing_or_repeating_a_trial(
    hyperopt_run: tuple[Path, str], tmp_path: Path, tool: str
) -> None:
    flags = [f"--tool={tool}", "--cpus_per_trial=1"]
    process = subprocess.Popen(
        command(tmp_path, *flags), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: (tmp_path / "hyper.jsonl").exists() and len(trials(tmp_path)) >= 1)
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


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_setting_that_fails_is_listed_with_its_reason_and_stops_no_other(tmp_path: Path, tool: str) -> None:
    space = "n_heads choice [2, 3]\ninner_size choice [16, 1000000000000]\n"
    done = search(tmp_path, f"--tool={tool}", *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    found = {(t["params"]["n_heads"], t["params"]["inner_size"]): t for t in trials(tmp_path)}
    assert found[2, 16]["status"] == "finished"
    assert "memory" in found[2, 10**12]["reason"]
    assert all("divisible by `n_heads`" in found[3, size]["reason"] for size in (16, 10**12))


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_trial_whose_process_is_killed_is_tried_again_and_the_search_ends_well(tmp_path: Path, tool: str) -> None:
    space = "learning_rate choice [0.01, 0.003]\n"
    flags = [f"--tool={tool}", "--cpus_per_trial=1", "--epochs=12"]
    process = started(tmp_path, *flags, space=space)
    weights = tmp_path / "hyper.trials" / "trial-0.pth"
    wait_for(weights.exists)  # an epoch is over
    family = psutil.Process(process.pid).children(recursive=True)
    assert _listening(family) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    workers = [child for child in family if _is_worker(child, tool)]
    assert workers
    for worker in workers:
        worker.kill()
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert [trial["status"] for trial in trials(tmp_path)] == ["finished", "finished"], said


def _listening(family: list[psutil.Process]) -> set[str]:
    """Addresses at which processes wait for others."""
    connections = [connection for process in family for connection in process.net_connections()]
    return {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}


def _is_worker(process: psutil.Process, tool: str) -> bool:
    return does(process, "spawn_main" if tool == "Hyperopt" else "ray::ImplicitFunc")  # not an agent of Ray


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_trial_whose_process_is_killed_twice_is_listed_as_failed(tmp_path: Path, tool: str) -> None:
    flags = [f"--tool={tool}", "--cpus_per_trial=1", "--epochs=400", "--max_concurrent=1"]
    flags = flags if tool == "Ray" else flags[:-1]
    space = "learning_rate choice [0.01, 0.003]\nstopping_step choice [400]\n"
    process = started(tmp_path, *flags, space=space)
    killed: set[int] = set()
    for number in (0, 0, 1, 1):
        weights = tmp_path / "hyper.trials" / f"trial-{number}.pth"
        wait_for(weights.exists)
        family = psutil.Process(process.pid).children(recursive=True)
        for worker in family:
            if worker.pid not in killed and _is_worker(worker, tool):
                killed.add(worker.pid)
                worker.kill()
                worker.wait()
        for file in (weights, weights.with_suffix(".last.pth")):  # they show that the trial has begun anew
            file.unlink(missing_ok=True)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 2, said
    assert len(trials(tmp_path)) == 2, said
    assert all("ended" in trial["reason"] for trial in trials(tmp_path)), said


@pytest.mark.ray
@pytest.mark.slow
def test_ctrl_c_with_ray_ends_the_search_untested(tmp_path: Path) -> None:
    process = started(tmp_path, "--tool=Ray", "--epochs=400", "--stopping_step=400")
    wait_for((tmp_path / "hyper.trials" / "trial-0.pth").exists)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "test of best" not in said


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_finished_search_is_only_concluded_again(hyperopt_run: tuple[Path, str], tmp_path: Path, tool: str) -> None:
    for file in hyperopt_run[0].iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    done = search(tmp_path, "--cpus_per_trial=1", f"--tool={tool}", "--resume")
    assert done.returncode == 0, done.stderr
    assert trials(tmp_path) == trials(hyperopt_run[0])
    assert (tmp_path / "hyper.result").read_text() == (hyperopt_run[0] / "hyper.result").read_text()


@pytest.mark.slow
def test_texts_of_a_parameter_file_are_not_evaluated(tmp_path: Path) -> None:
    space = "hidden_act choice [\"__import__('os').system('touch pwned')\", 'gelu']\n"
    done = search(tmp_path, *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "pwned").exists()
    assert "`hidden_act`" in trials(tmp_path)[0]["reason"]


@pytest.mark.slow
def test_two_searches_do_not_write_to_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "hyper.trials").mkdir()
    with FileLock(tmp_path / "hyper.trials" / "lock"):
        done = search(tmp_path)
    assert done.returncode == 2


@pytest.mark.ray
@pytest.mark.slow
def test_the_median_rule_stops_trials_and_bears_failures(tmp_path: Path) -> None:
    space = "learning_rate choice [0.01, 0.008, 0.005, 1e-9, 1e-8]\nn_heads choice [2, 3]\n"
    flags = ["--tool=Ray", "--scheduler=median", "--epochs=12"]
    done = search(tmp_path, *flags, *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    found = trials(tmp_path)
    assert [trial["status"] for trial in found].count("failed") == 5
    assert "stopped" in {trial["status"] for trial in found}
    assert all(trial["epochs"] <= 12 for trial in found)


@pytest.mark.ray
@pytest.mark.slow
def test_asha_stops_trials_early_and_keeps_a_winner(tmp_path: Path) -> None:
    space = "learning_rate choice [0.01, 0.001, 0.0001, 0.00001]\nmask_ratio choice [0.2, 0.4]\n"
    flags = ["--tool=Ray", "--scheduler=asha", "--epochs=9"]
    done = search(tmp_path, *flags, *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    found = trials(tmp_path)
    assert len(found) == 8
    assert {"stopped", "finished"} >= {trial["status"] for trial in found} >= {"stopped"}
    assert sum(trial["epochs"] for trial in found) < 72


@pytest.mark.slow
def test_a_new_search_goes_on_from_no_weights_of_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "hyper.trials").mkdir()
    for name in ("trial-0.pth", "trial-0.last.pth", "trial-7.pth"):
        (tmp_path / "hyper.trials" / name).write_text("of an earlier search")
    done = search(tmp_path, "--epochs=1", *small_log(tmp_path), space="mask_ratio choice [0.2]\n")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "hyper.trials").exists()


@pytest.mark.slow
def test_other_models_and_continuous_spaces_are_searched(tmp_path: Path) -> None:
    space = "learning_rate loguniform10 1e-4,1e-2\ntrain_batch_size quniform 4096,8192,2048\n"
    flags = ["--model=GRU4Rec", "--algo=bayes", "--max_evals=2", "--embedding_size=8", "--epochs=1"]
    done = search(tmp_path, *flags, *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    assert len(trials(tmp_path)) == 2
    assert all(isinstance(trial["params"]["train_batch_size"], int) for trial in trials(tmp_path))


SPACE_OF_MISTAKES = "hiden_size choice [32]\nn_layers choice [1]\nn_heads chioce\nmodel choice ['Pop']\n"
BAD: list[tuple[list[str], str, list[str]]] = [
    ([], SPACE_OF_MISTAKES, ["line 3: ", "'n_heads chioce'", "line 1: ", "`hidden_size`?", "line 4: ", "model"]),
    (["--algo=exhaustive", "--max_evals=3"], SPACE, ["--max_evals", "--algo"]),
    (["--scheduler=asha", "--max_concurrent=0"], SPACE, ["--scheduler", "--max_concurrent"]),
    (["--tool=Ray", "--scheduler=asha", "--budget=1m"], SPACE, ["--budget", "--scheduler"]),
    (["--budget=soon"], SPACE, ["--budget=soon"]),
    (["--learning_rate=0.1"], SPACE, ["`learning_rate`"]),
    (["--dataset=nowhere"], SPACE, ["nowhere"]),
    (["--metric=MRR@10"], SPACE, ["--metric", "--valid_metric"]),
    (["--valid_metric=NDCG@99"], SPACE, ["`valid_metric`"]),
    (["--eval_step=0"], SPACE, ["`eval_step`"]),
    (["--tool=Ray", "--ray_address=127.0.0.1:1"], SPACE, ["--ray_address=127.0.0.1:1"]),
    (["--tool=Ray", "--cpus_per_trial=99"], SPACE, ["99 CPUs"]),
]


@pytest.mark.parametrize(("flags", "space", "named"), BAD, ids=str)
def test_mistakes_are_named_and_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], space: str, named: list[str]
) -> None:
    assert main(command(tmp_path, *flags, space=space)[2:], name="tune") == 2
    said = capsys.readouterr().err
    assert all(words in said for words in named)
    assert not {path.name for path in tmp_path.iterdir()} - {"some.hyper", "log_tensorboard", "log", "saved"}
