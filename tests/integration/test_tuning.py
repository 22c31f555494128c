"""run_hyper.py as a user runs it: on ml-100k or a small log, with real Ray, killed and begun again."""

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
from tests.helpers.programs import ENVIRONMENT, ROOT, ROWS, main_here, wait_for

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


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a search by their names; those of trials that are over."""
    found = {file.stem: json.loads(file.read_text()) for file in (folder / "hyper.runs").glob("*.json")}
    return {name: record for name, record in found.items() if "unfinished" not in record}


def scores(folder: Path) -> dict[str, Any]:
    return {
        name: (record["best_valid_score"], record["epochs"][-1]["epoch"]) for name, record in records(folder).items()
    }


@pytest.fixture(scope="module")
def hyperopt_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("hyperopt")
    done = search(folder, "--cpus_per_trial=1")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_every_combination_runs_once_and_the_winner_alone_is_tested_and_kept(hyperopt_run: tuple[Path, str]) -> None:
    folder, said = hyperopt_run
    found = records(folder)
    assert len(found) == 4
    assert all(len(record["epochs"]) == 2 for record in found.values())
    best = max(found, key=lambda name: found[name]["best_valid_score"])
    assert [name for name, record in found.items() if record["test_result"]] == [best]
    assert [file.name for file in (folder / "hyper.runs").glob("*.pth")] == [f"{best}.pth"]
    assert said.count("test of best") == 1
    text = (folder / "hyper.result").read_text()
    assert text.count("Valid result") == 4
    assert text.count("Test result") == 1
    assert text.index("Test result") < text.index("Valid result", text.index("Valid result") + 1), "the best is first"
    assert (folder / "hyper.pth").read_bytes() == (folder / "hyper.runs" / f"{best}.pth").read_bytes()
    assert (folder / "hyper.html").stat().st_size > 0


@pytest.mark.slow
def test_the_best_options_are_a_file_that_run_py_takes(hyperopt_run: tuple[Path, str]) -> None:
    folder, _ = hyperopt_run
    best = max(records(folder).values(), key=lambda record: record["best_valid_score"])
    flags = ["--config_files=hyper.best.yaml", "--show_progress=False", "--checkpoint_dir=again"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *flags], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT
    )
    (record,) = (folder / "again").glob("*.json")
    again = json.loads(record.read_text())
    assert again["best_valid_score"] == best["best_valid_score"], done.stderr
    assert again["test_result"] == best["test_result"]


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
def test_a_killed_search_goes_on_by_the_same_command_without_losing_or_repeating_a_trial(
    hyperopt_run: tuple[Path, str], tmp_path: Path, tool: str
) -> None:
    flags = [f"--tool={tool}", "--cpus_per_trial=1"]
    process = started(tmp_path, *flags)
    wait_for(lambda: len(records(tmp_path)) >= 1)
    for member in [*psutil.Process(process.pid).children(recursive=True), process]:
        member.kill() if psutil.pid_exists(member.pid) else None
    process.communicate()
    before = records(tmp_path)
    assert 1 <= len(before) < 4
    done = search(tmp_path, *flags)
    assert done.returncode == 0, done.stderr
    after = records(tmp_path)
    assert all(after[name]["ended"] == record["ended"] for name, record in before.items())
    assert scores(tmp_path) == scores(hyperopt_run[0])
    assert (tmp_path / "hyper.result").read_text() == (hyperopt_run[0] / "hyper.result").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_setting_that_fails_is_listed_with_its_reason_and_stops_no_other(tmp_path: Path, tool: str) -> None:
    space = "n_heads choice [2, 3]\ninner_size choice [16, 1000000000000]\n"
    done = search(tmp_path, f"--tool={tool}", *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path)) == 1
    text = (tmp_path / "hyper.result").read_text()
    failed = [part.splitlines() for part in text.split("\n\n") if "failed: " in part]
    assert len(failed) == 3
    assert all(("divisible by `n_heads`" if "n_heads:3" in setting else "memory") in why for setting, why in failed)


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_trial_whose_process_is_killed_stops_no_other_and_goes_on_by_the_same_command(
    tmp_path: Path, tool: str
) -> None:
    flags = [f"--tool={tool}", "--cpus_per_trial=1", "--epochs=12"]
    flags += ["--max_concurrent=1"] if tool == "Ray" else []
    space = "learning_rate choice [0.01, 0.003]\n"
    process = started(tmp_path, *flags, space=space)
    folder = tmp_path / "hyper.runs"
    wait_for(lambda: list(folder.glob("*.last.pth")))  # an epoch is over
    family = psutil.Process(process.pid).children(recursive=True)
    assert _listening(family) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    (log,) = folder.glob("*.log")
    (worker,) = [child for child in family if str(log) in {file.path for file in child.open_files()}]
    worker.kill()
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert "ended by signal SIGKILL" in said
    assert len(records(tmp_path)) == 1
    done = search(tmp_path, *flags, space=space)
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path)) == 2
    assert "Resume training from epoch" in log.read_text()


def _listening(family: list[psutil.Process]) -> set[str]:
    """Addresses at which processes wait for others."""
    connections = [connection for process in family for connection in process.net_connections()]
    return {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}


@pytest.mark.ray
@pytest.mark.slow
def test_ctrl_c_with_ray_ends_the_search_untested(tmp_path: Path) -> None:
    process = started(tmp_path, "--tool=Ray", "--epochs=400", "--stopping_step=400")
    wait_for(lambda: list((tmp_path / "hyper.runs").glob("*.pth")))
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "test of best" not in said
    psutil.wait_procs(family, timeout=30)
    assert not [member for member in family if member.is_running()]


@pytest.mark.slow
def test_a_winner_whose_weights_are_gone_is_trained_again(hyperopt_run: tuple[Path, str], tmp_path: Path) -> None:
    shutil.copytree(hyperopt_run[0], tmp_path, dirs_exist_ok=True)
    for file in tmp_path.rglob("*.pth"):
        file.unlink()
    done = search(tmp_path, "--cpus_per_trial=1")
    assert done.returncode == 0, done.stderr
    assert "training it again" in done.stdout
    assert (tmp_path / "hyper.result").read_text() == (hyperopt_run[0] / "hyper.result").read_text()
    again = search(tmp_path, "--cpus_per_trial=1")
    assert "training it again" not in again.stdout


@pytest.mark.slow
def test_texts_of_a_parameter_file_are_not_evaluated(tmp_path: Path) -> None:
    space = "hidden_act choice [\"__import__('os').system('touch pwned')\", 'gelu']\n"
    done = search(tmp_path, *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "pwned").exists()
    assert "failed: " in done.stdout


@pytest.mark.slow
def test_two_searches_do_not_write_to_the_same_file(tmp_path: Path) -> None:
    with FileLock(tmp_path / "hyper.lock"):
        done = search(tmp_path)
    assert done.returncode == 2


@pytest.mark.ray
@pytest.mark.slow
def test_the_median_rule_stops_trials_and_bears_failures(tmp_path: Path) -> None:
    space = "learning_rate choice [0.01, 0.008, 0.005, 1e-9, 1e-8]\nn_heads choice [2, 3]\n"
    flags = ["--tool=Ray", "--scheduler=median", "--epochs=12"]
    done = search(tmp_path, *flags, *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    found = list(records(tmp_path).values())
    assert len(found) == 5
    assert (tmp_path / "hyper.result").read_text().count("failed: ") == 5
    assert any(record.get("stopped") for record in found)
    assert all(len(record["epochs"]) <= 12 for record in found)


@pytest.mark.ray
@pytest.mark.slow
def test_asha_stops_trials_early_and_keeps_a_winner(tmp_path: Path) -> None:
    space = "learning_rate choice [0.01, 0.001, 0.0001, 0.00001]\nmask_ratio choice [0.2, 0.4]\n"
    flags = ["--tool=Ray", "--scheduler=asha", "--epochs=9"]
    done = search(tmp_path, *flags, *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    found = records(tmp_path)
    assert len(found) == 8
    assert any(record.get("stopped") for record in found.values())
    assert sum(len(record["epochs"]) for record in found.values()) < 72
    again = search(tmp_path, *flags, *small_log(tmp_path), space=space)
    assert again.returncode == 0, again.stderr
    assert {name: record["ended"] for name, record in records(tmp_path).items()} == {
        name: record["ended"] for name, record in found.items()
    }, "nothing is trained again"


@pytest.mark.slow
def test_other_models_and_continuous_spaces_are_searched(tmp_path: Path) -> None:
    space = "learning_rate loguniform10 1e-4,1e-2\ntrain_batch_size quniform 4096,8192,2048\n"
    flags = ["--model=GRU4Rec", "--algo=bayes", "--max_evals=2", "--embedding_size=8", "--epochs=1"]
    done = search(tmp_path, *flags, *small_log(tmp_path), space=space)
    assert done.returncode == 0, done.stderr
    found = records(tmp_path)
    assert len(found) == 2
    assert all(isinstance(record["config"]["train_batch_size"], int) for record in found.values())


SPACE_OF_MISTAKES = "hiden_size choice [32]\nn_layers choice [1]\nn_heads chioce\nmodel choice ['Pop']\n"
BAD: list[tuple[list[str], str, list[str]]] = [
    ([], SPACE_OF_MISTAKES, ["line 3: ", "'chioce'", "line 1: ", "`hidden_size`?", "line 4: ", "model"]),
    (["--algo=exhaustive", "--max_evals=3"], SPACE, ["--max_evals", "--algo"]),
    (["--scheduler=asha", "--max_concurrent=2"], SPACE, ["--scheduler", "--max_concurrent"]),
    (["--tool=Ray", "--scheduler=asha", "--budget=1m"], SPACE, ["--budget", "--scheduler"]),
    (["--budget=soon"], SPACE, ["--budget", "'soon'"]),
    (["--learning_rate=0.1"], SPACE, ["`learning_rate`"]),
    (["--dataset=nowhere"], SPACE, ["nowhere"]),
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
