"""run_hyper.py as a user runs it: on a small log, with real Ray, killed and begun again."""

from __future__ import annotations

import json
import os
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

FAST = ["--epochs=20", "--stopping_step=20", "--batch_sequences=16", "--hidden_size=16", "--inner_size=16"]
FAST += ["--n_layers=1", "--topk=[10]", "--metrics=['NDCG']", "--valid_metric=NDCG@10"]
SPACE = "learning_rate choice [0.01, 0.003]\nmask_ratio choice [0.2, 0.4]\n"
pytestmark = pytest.mark.integration
with_ray = [pytest.mark.slow, pytest.mark.ray, pytest.mark.xdist_group("ray")]


def command(folder: Path, *flags: str, space: str = SPACE) -> list[str]:
    """Of a small search; ``flags`` take the place of those of the same name, and those of the space are left out."""
    (folder / "some.hyper").write_text(space)
    log = [f"--{key}={value}" for key, value in inter_writer(folder)(ROWS).items()]
    taken = {flag.split("=")[0] for flag in flags} | {f"--{line.split()[0]}" for line in space.splitlines()}
    fast = [flag for flag in (*log, *FAST) if flag.split("=")[0] not in taken]
    return [sys.executable, str(ROOT / "run_hyper.py"), "--params_file=some.hyper", *fast, *flags]


def search(folder: Path, *flags: str, space: str = SPACE) -> subprocess.CompletedProcess[str]:
    """Run a search to its end: in this process, or in one of its own if it joins Ray, whose word is read on import."""
    if "--tool=Ray" in flags:
        process = started(folder, *flags, space=space)
        said, _ = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, said, said)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return main_here(command(folder, *flags, space=space)[2:], "tune")


def started(folder: Path, *flags: str, space: str = SPACE) -> subprocess.Popen[str]:
    """A search that runs while the test goes on."""
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": ENVIRONMENT}
    return subprocess.Popen(command(folder, *flags, space=space), cwd=folder, **how)


def kill(*processes: psutil.Process) -> None:
    for process in processes:
        process.kill() if psutil.pid_exists(process.pid) else None


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a search by their names; those of trials that are over."""
    found = {file.stem: json.loads(file.read_text()) for file in (folder / "hyper.runs").glob("*.json")}
    return {name: record for name, record in found.items() if "unfinished" not in record}


def scores(folder: Path) -> dict[str, Any]:
    return {
        name: (record["best_valid_score"], record["epochs"][-1]["epoch"]) for name, record in records(folder).items()
    }


@pytest.fixture(scope="session")
def hyperopt_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("hyperopt")
    done = search(folder, "--cpus_per_trial=1")
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_every_combination_runs_once_the_winner_alone_is_tested_and_kept_and_run_py_takes_its_options(
    hyperopt_run: tuple[Path, str], tmp_path: Path
) -> None:
    folder, said = hyperopt_run
    found = records(folder)
    assert len(found) == 4
    assert all(len(record["epochs"]) == 20 for record in found.values())
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
    assert main([f"--config_files={folder}/hyper.best.yaml", "--show_progress=False"], name="run") == 0
    (record,) = Path("saved").glob("*.json")
    again = json.loads(record.read_text())
    for part in ("best_valid_score", "test_result"):
        assert again[part] == found[best][part]


@pytest.mark.slow
def test_a_search_whose_trial_and_then_itself_is_killed_goes_on_inside_a_trial_without_losing_or_repeating_one(
    hyperopt_run: tuple[Path, str], tmp_path: Path
) -> None:
    process = started(tmp_path, "--cpus_per_trial=1")
    folder = tmp_path / "hyper.runs"
    wait_for(lambda: list(folder.glob("*.last.pth")))  # an epoch is over
    family = psutil.Process(process.pid).children(recursive=True)
    (log,) = folder.glob("*.log")
    kill(*(child for child in family if str(log) in {file.path for file in child.open_files()}))
    wait_for(lambda: records(tmp_path) and len(list(folder.glob("*.last.pth"))) > 1)
    kill(*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid))
    said, _ = process.communicate()
    assert "ended by signal SIGKILL" in said
    before = records(tmp_path)
    assert 1 <= len(before) < 4
    done = search(tmp_path, "--cpus_per_trial=1")
    assert done.returncode == 0, done.stderr
    after = records(tmp_path)
    assert all(after[name]["ended"] == record["ended"] for name, record in before.items())
    assert "Resume training from epoch" in log.read_text()
    assert scores(tmp_path) == scores(hyperopt_run[0])
    assert (tmp_path / "hyper.result").read_text() == (hyperopt_run[0] / "hyper.result").read_text()
    assert not list(folder.glob("*.last.pth"))
    for file in tmp_path.rglob("*.pth"):  # a winner whose weights are gone is trained again, once
        file.unlink()
    for times in (1, 0):
        done = search(tmp_path, "--cpus_per_trial=1")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("training it again") == times
        assert (tmp_path / "hyper.result").read_text() == (hyperopt_run[0] / "hyper.result").read_text()


@pytest.mark.slow
def test_a_setting_that_fails_is_listed_with_its_reason_stops_no_other_and_is_not_evaluated(tmp_path: Path) -> None:
    act = "hidden_act choice [\"__import__('os').system('touch pwned')\", 'gelu']\n"
    done = search(tmp_path, "--epochs=1", space=f"n_heads choice [2, 3]\ninner_size choice [16, 1000000000000]\n{act}")
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path)) == 1
    assert not (tmp_path / "pwned").exists()
    text = (tmp_path / "hyper.result").read_text()
    failed = [part.splitlines() for part in text.split("\n\n") if "failed: " in part]
    assert len(failed) == 7
    for setting, why in failed:
        if "hidden_act:gelu" in setting:
            assert ("divisible by `n_heads`" if "n_heads:3" in setting else "memory") in why


@pytest.mark.slow
def test_two_searches_do_not_write_to_the_same_file(tmp_path: Path) -> None:
    with FileLock(tmp_path / "hyper.lock"):
        done = search(tmp_path)
    assert done.returncode == 2


@pytest.mark.slow
def test_other_models_and_continuous_spaces_are_searched(tmp_path: Path) -> None:
    space = "learning_rate loguniform10 1e-4,1e-2\ntrain_batch_size quniform 4096,8192,2048\n"
    flags = ["--model=GRU4Rec", "--algo=bayes", "--max_evals=2", "--embedding_size=8", "--epochs=1"]
    done = search(tmp_path, *flags, space=space)
    assert done.returncode == 0, done.stderr
    found = records(tmp_path)
    assert len(found) == 2
    assert all(isinstance(record["config"]["train_batch_size"], int) for record in found.values())


class TestWithRay:
    """One after the other, and never beside another Ray: what is killed, and how soon, is the subject of several."""

    pytestmark = with_ray

    def test_recboles_own_objective_reports_to_ray(self, tmp_path: Path) -> None:
        options = {"model": "BERT4Rec", "show_progress": False, "checkpoint_dir": str(tmp_path), "epochs": 1}
        options |= {"hidden_size": 16, "n_layers": 1, **inter_writer(tmp_path)(ROWS)}
        program = f"""
import recbole_bert4rec, ray
from ray import tune
from recbole.quick_start import objective_function
ray.init(address="local", include_dashboard=False, log_to_driver=False, num_cpus=1)

def trial(_):
    objective_function(config_dict={options})  # what a trial returns is reported too, after it

(result,) = tune.Tuner(trial).fit()
print("reported", result.error, result.metrics["ndcg@10"] > 0)
"""
        home = {**os.environ, "HOME": str(tmp_path)}  # where Ray writes
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=600, env=home
        )
        assert "reported None True" in done.stdout, done.stderr

    def test_a_killed_search_goes_on_by_the_same_command_as_one_with_hyperopt(
        self, hyperopt_run: tuple[Path, str], tmp_path: Path, ray_address: str
    ) -> None:
        process = started(tmp_path, "--tool=Ray", "--max_concurrent=1")
        wait_for(lambda: records(tmp_path))
        kill(*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid))
        process.communicate()
        before = records(tmp_path)
        assert 1 <= len(before) < 4
        done = search(tmp_path, "--tool=Ray", f"--ray_address={ray_address}")
        assert done.returncode == 0, done.stderr
        after = records(tmp_path)
        assert all(after[name]["ended"] == record["ended"] for name, record in before.items())
        assert scores(tmp_path) == scores(hyperopt_run[0])
        assert (tmp_path / "hyper.result").read_text() == (hyperopt_run[0] / "hyper.result").read_text()

    def test_ctrl_c_ends_the_search_untested_which_listens_to_this_machine_alone(self, tmp_path: Path) -> None:
        process = started(tmp_path, "--tool=Ray", "--epochs=4000", "--stopping_step=4000")
        wait_for(lambda: list((tmp_path / "hyper.runs").glob("*.pth")))
        family = psutil.Process(process.pid).children(recursive=True)
        connections = [connection for one in family for connection in one.net_connections()]
        waiting = {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
        assert waiting <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 130, said
        assert "test of best" not in said
        psutil.wait_procs(family, timeout=30)
        assert not [member for member in family if member.is_running()]

    def test_the_median_rule_stops_trials_and_bears_failures(self, tmp_path: Path, ray_address: str) -> None:
        space = "learning_rate choice [0.01, 0.008, 0.005, 1e-9, 1e-8]\nn_heads choice [2, 3]\n"
        flags = ["--tool=Ray", f"--ray_address={ray_address}", "--scheduler=median", "--epochs=12"]
        done = search(tmp_path, *flags, space=space)
        assert done.returncode == 0, done.stderr
        found = list(records(tmp_path).values())
        assert len(found) == 5
        text = (tmp_path / "hyper.result").read_text()
        failed = [part.splitlines() for part in text.split("\n\n") if "failed: " in part]
        assert len(failed) == 5
        assert all("n_heads:3" in setting and "divisible by `n_heads`" in why for setting, why in failed)
        assert any(record.get("stopped") for record in found)
        assert all(len(record["epochs"]) <= 12 for record in found)

    def test_asha_stops_trials_early_keeps_a_winner_and_trains_nothing_again(
        self, tmp_path: Path, ray_address: str
    ) -> None:
        space = "learning_rate choice [0.01, 0.001, 0.0001, 0.00001]\nmask_ratio choice [0.2, 0.4]\n"
        flags = ["--tool=Ray", f"--ray_address={ray_address}", "--scheduler=asha", "--epochs=9"]
        ended = []
        for _ in range(2):
            done = search(tmp_path, *flags, space=space)
            assert done.returncode == 0, done.stderr
            found = records(tmp_path)
            assert len(found) == 8
            assert any(record.get("stopped") for record in found.values())
            assert sum(len(record["epochs"]) for record in found.values()) < 72
            ended.append({name: record["ended"] for name, record in found.items()})
        assert ended[0] == ended[1]

    def test_more_processors_than_there_are_is_one_line(self, tmp_path: Path, ray_address: str) -> None:
        done = search(tmp_path, "--tool=Ray", f"--ray_address={ray_address}", "--cpus_per_trial=99")
        assert done.returncode == 2
        assert "99 CPUs" in done.stderr


SPACE_OF_MISTAKES = "hiden_size choice [32]\nn_layers choice [1]\nn_heads chioce\nmodel choice ['Pop']\n"
BAD: list[tuple[list[str], str, list[str]]] = [
    ([], SPACE_OF_MISTAKES, ["line 3: ", "'chioce'", "line 1: ", "`hidden_size`?", "line 4: ", "model"]),
    (["--algo=exhaustive", "--max_evals=3"], SPACE, ["--max_evals", "--algo"]),
    (["--scheduler=asha", "--max_concurrent=2"], SPACE, ["--scheduler", "--max_concurrent"]),
    (["--budget=soon"], SPACE, ["--budget", "'soon'"]),
    (["--learning_rate=0.1"], SPACE, ["`learning_rate`"]),
    (["--dataset=nowhere"], SPACE, ["nowhere"]),
    (["--valid_metric=NDCG@99"], SPACE, ["`valid_metric`"]),
    (["--eval_step=0"], SPACE, ["`eval_step`"]),
    (["--tool=Ray", "--ray_address=127.0.0.1:1"], SPACE, ["--ray_address=127.0.0.1:1"]),
]


@pytest.mark.parametrize(("flags", "space", "named"), BAD, ids=str)
def test_mistakes_are_named_and_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], space: str, named: list[str]
) -> None:
    assert main(command(tmp_path, *flags, space=space)[2:], name="tune") == 2
    said = capsys.readouterr().err
    assert all(words in said for words in named)
    made = {path.name for path in tmp_path.iterdir()}
    assert not made - {"some.hyper", "data", "log_tensorboard", "log", "saved"}
