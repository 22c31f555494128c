"""The command lines: flags that do not go together, how what goes wrong is said, and Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recbole.config import Config

from recbole_bert4rec.cli.flags import joined
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.training import run

COMMANDS = ("run", "compare", "tune", "recommend", "similar", "evaluate", "append", "serve", "export", "info", "doctor")

SEARCH = ["tune", "--params_file=none.hyper"]
BAD: list[tuple[list[str], str]] = [
    (["--k=5"], "--recommend"),
    (["--metrics=a=b"], "--metrics=a=b"),
    (["--nproc=2", "--budget=3s"], "--budget"),
    (["--output_dir=x"], "checkpoint_dir"),
    (["--model=Pop,BERT4Rec", "--resume=x.pth"], "--resume"),
    (["compare", "--study=ablation.yaml", "--model=Pop,SASRec"], "Pop,SASRec"),
    (["compare", "--study=none.yaml"], "none.yaml"),
    (["--seeds=2", "--nproc=2"], "--nproc"),
    (["--seeds=2", "--verbose"], "--verbose"),
    (["--seeds=0"], "--seeds=0"),
    (["--epochs=3", "--epochs=4"], "`--epochs`"),
    (["--nproc=0"], "--nproc: '0'"),
    (["--budget=soon"], "--budget: 'soon'"),
    (["--nproc=2", "--engine=ray"], "--engine=ray"),
    (["--ray_address=auto"], "--engine=ray"),
    (["--seeds=2", "--seed=one"], "`seed`"),
    (["--model=,"], "--model=,"),
    ([*SEARCH, "--gpus_per_trial=-1", "--tool=Ray"], "--gpus_per_trial"),
    ([*SEARCH, "--tool=Ray", "--gpu_id=0"], "--gpu_id"),
    ([*SEARCH, "--ray_address=a:1"], "--ray_address needs --tool=Ray"),
    ([*SEARCH, "--scheduler=median"], "--scheduler needs --tool=Ray"),
    ([*SEARCH, "--algo=random", "--max_evals=0"], "--max_evals"),
    ([*SEARCH, "--algo=exhaustive", "--max_evals=3"], "--max_evals"),
    ([*SEARCH, "--metric=MRR@10"], "`metric`: did you mean `metrics`?"),
    (["recommend", "--input=a.csv"], "--checkpoint"),
    (["recomend"], "did you mean `recommend`?"),
    (["--epochs", "--model", "BERT4Rec", "5"], "'5'"),
    (["xyz"], "'xyz'"),
    (["--recomend=top.csv"], "`--recommend`"),
    (["doctor", "--x=1"], "--x=1"),
    (["append", "--checkpoint=m.pth", "--output=n.pth", "--like=a"], "--like=a"),
    (["append", "--checkpoint=m.pth", "--output=no/n.pth", "--item=a"], "--output=no/n.pth"),
    (["recommend", "--checkpoint=m.pth", "--output=a.csv", "--engine=ray"], "--input"),
    (["recommend", "--checkpoint=m.pth", "--output=a.csv", "--date_format=%Y"], "--date_format: of use with --input"),
    (["evaluate", "--checkpoint=m.pth", "--encoding=utf-8", "--USER_ID_FIELD=u"], "--USER_ID_FIELD, --encoding"),
    (["evaluate", "--checkpoint=m.pth", "--filter_viewed=auto"], "choose from True, False)"),
]


@pytest.mark.parametrize(("arguments", "named"), BAD, ids=str)
def test_what_cannot_be_meant_is_named_and_refused_before_anything_runs(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert "error: " in said
    assert "usage: " not in said
    assert named in said
    assert not list(Path().iterdir())


def raising(error: BaseException) -> Any:
    """A function that does nothing else."""

    def failing(*_: Any, **__: Any) -> None:
        raise error

    return failing


@pytest.mark.parametrize(
    "arguments", [[], ["compare", "--study=ablation.yaml"], ["tune", "--params_file=a.hyper"]], ids=str
)
def test_ctrl_c_is_an_exit_code_of_its_own(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.hyper").write_text("hidden_size choice [8, 16]\n")
    monkeypatch.setattr(Config, "__init__", raising(KeyboardInterrupt()))
    assert main(arguments) == 130


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("is_logged", [False, True])
def test_a_fault_of_the_program_is_one_line_and_its_traceback_is_kept(
    debug: bool,
    is_logged: bool,
    write_inter: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "build" if is_logged else "check_places", raising(KeyError("nobody")))
    rows = [(f"u{user}", f"i{(user + time) % 7}", time) for user in range(9) for time in range(5)]
    options = [f"--{name}={value}" for name, value in write_inter(rows).items()]
    assert main([*options, *["--debug"] * debug]) == 1
    said = capsys.readouterr().err
    last = said.splitlines()[-1]
    assert last.startswith("error: a fault of the program, KeyError: 'nobody' (test_cli.py:")
    assert ("Traceback" in said) == debug
    logs = list(Path("log").rglob("*.log"))
    assert len(logs) == is_logged
    for log in logs:
        assert str(log) in last
        assert "Traceback" in log.read_text()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device", "a/file"), "a/file: No space left on device\n"),
        (OSError(), "OSError: no message (test_cli.py:"),
    ],
)
def test_an_error_of_the_system_is_one_line_that_names_the_file(
    error: OSError, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "run", raising(error))
    assert main(["run"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_help_comes_without_torch_pandas_or_recbole() -> None:
    program = f"""
import sys
from recbole_bert4rec.cli.main import main
for name in {COMMANDS!r}:
    try:
        main([name, "--help"])
    except SystemExit as end:
        heavy = [module for module in ("torch", "pandas", "numpy", "pyarrow", "recbole") if module in sys.modules]
        print(name, end.code, heavy, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"{name} 0 []" for name in COMMANDS]


def test_an_option_and_its_value_may_be_two_words() -> None:
    for words, wanted in (
        ("--epochs 3", "--epochs=3"),
        ("--epochs=3 --seed -1", "--epochs=3 --seed=-1"),
        ("--exclude_seen --epochs 3", "--exclude_seen=True --epochs=3"),
        ("--allow_unknown", "--allow_unknown=True"),
        ("--exclude_seen False", "--exclude_seen=False"),
        ("--epochs", "--epochs"),
        ("--epochs --seed=1", "--epochs --seed=1"),
        ("file.yaml --topk [1,2]", "file.yaml --topk=[1,2]"),
    ):
        assert joined(words.split(), words.split()) == wanted.split()


@pytest.mark.parametrize(("model", "option"), [("BERT4Rec", "--warmup_steps"), ("GRU4Rec", "--dropout_prob")])
def test_help_names_the_options_of_the_model(model: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", f"--model={model}", "--help"])
    assert end.value.code == 0
    assert f"{option} VALUE" in capsys.readouterr().out


def test_an_option_that_only_some_of_the_compared_models_know_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recbole_bert4rec.experiments.compare.in_own_process", raising(KeyboardInterrupt()))
    assert main(["--model=BERT4Rec,GRU4Rec,Pop", "--seeds=3", "--num_layers=2", "--use_gpu=False"]) == 130
    said = capsys.readouterr()
    assert said.out.count("num_layers") == 1
    assert "BERT4Rec, Pop" in said.out
    assert "num_layers" not in said.err
