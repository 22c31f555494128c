"""The command lines: flags that do not go together, how what goes wrong is said, and Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from recbole.config import Config

from recbole_bert4rec import load
from recbole_bert4rec.cli.flags import joined
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.training import run
from tests.helpers.trained import trained

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
    (["--config_files=none.yaml"], "none.yaml"),
    (["--nproc=2", "--engine=ray"], "--engine=ray"),
    (["--ray_address=auto"], "--engine=ray"),
    (["--engine=ray", "--num_workers=0"], "--num_workers: '0'"),
    (["--seeds=2", "--seed=one"], "`seed`"),
    (["--model=,"], "--model=,"),
    ([*SEARCH, "--gpus_per_trial=-1", "--tool=Ray"], "--gpus_per_trial"),
    ([*SEARCH, "--tool=Ray", "--gpu_id=0"], "--gpu_id"),
    ([*SEARCH, "--ray_address=a:1"], "--ray_address needs --tool=Ray"),
    ([*SEARCH, "--scheduler=median"], "--scheduler needs --tool=Ray"),
    ([*SEARCH, "--algo=random", "--max_evals=0"], "--max_evals"),
    ([*SEARCH, "--algo=exhaustive", "--max_evals=3"], "--max_evals"),
    ([*SEARCH, "--metric=MRR@10"], "`metric`: did you mean `metrics`?"),
    (["tune", "--tool=ray", "--params_file=a"], "'ray'"),
    (["recommend", "--input=a.csv"], "--checkpoint"),
    (["tun"], "did you mean `tune`?"),
    (["recomend"], "did you mean `recommend`?"),
    (["--quiet", "--verbose"], "not allowed with"),
    (["--epochs", "--model", "BERT4Rec", "5"], "'5'"),
    (["xyz"], "'xyz'"),
    (["--recomend=top.csv"], "`--recommend`"),
    (["tune", "--params_file=a", "--max_eval=3"], "`--max_evals`"),
    (["doctor", "--x=1"], "--x=1"),
    (["append", "--checkpoint=m.pth", "--output=n.pth", "--like=a"], "--like=a"),
    (["append", "--checkpoint=m.pth", "--output=n.pth"], "--item or --vectors"),
    (["append", "--checkpoint=m.pth", "--output=no/n.pth", "--item=a"], "--output=no/n.pth"),
    (["recommend", "--checkpoint=m.pth", "--output=a.csv", "--engine=ray"], "--input"),
    (["recommend", "--checkpoint=m.pth", "--output=a.csv", "--date_format=%Y"], "--date_format: of use with --input"),
    (["evaluate", "--checkpoint=m.pth", "--encoding=utf-8", "--USER_ID_FIELD=u"], "--USER_ID_FIELD, --encoding"),
    (["evaluate", "--checkpoint=m.pth", "--filter_viewed=auto"], "choose from True, False)"),
    (["export", "--checkpoint=m.pth"], "--output"),
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


@pytest.mark.parametrize(
    "arguments", [[], ["compare", "--study=ablation.yaml"], ["tune", "--params_file=a.hyper"]], ids=str
)
def test_ctrl_c_is_an_exit_code_of_its_own(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    Path("a.hyper").write_text("hidden_size choice [8, 16]\n")
    monkeypatch.setattr(Config, "__init__", interrupted)
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
    def broken(*_: Any) -> None:
        raise KeyError("nobody")

    monkeypatch.setattr(run, "build" if is_logged else "check_places", broken)
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
    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(run, "run", failing)
    assert main(["run"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")


def test_append_writes_a_checkpoint_that_knows_new_items(write_inter: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["append", f"--checkpoint={trained(write_inter).file}", "--device=cpu", "--output=more.pth"]
    assert main([*command, "--item=new", "--like=i3,i5", "--item=any"]) == 0
    model = load("more.pth", "cpu")
    assert model.items[-2:] == ["new", "any"]
    scores = model.score([["i1", "i2"]], ["i3", "i5", "new"])["score"]
    assert scores.iloc[2] == pytest.approx(scores.iloc[:2].mean(), abs=1e-4)
    for more, named in ((["--item=i3"], "'i3'"), (["--item=x", "--like=i3,no"], "(--like) names 1 of 2 items")):
        assert main([*command, *more]) == 2
        assert named in capsys.readouterr().err


def test_append_takes_new_items_by_their_contents(write_inter: Any, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = trained(write_inter, item_vectors="vectors.parquet").file
    command = ["append", f"--checkpoint={checkpoint}", "--vectors=grown.parquet", "--output=more.pth"]
    for items, code, said in (
        (["i3", "cold"], 2, "all 2 are known"),
        (["i3", "blue", "cold"], 0, "1 of them new; 2 of grown.parquet were known"),
    ):
        vectors = [[1.0, 2.0, 3.0, 4.0, 5.0]] * len(items)
        pd.DataFrame({"item_id": items, "vector": vectors}).to_parquet("grown.parquet")
        assert main(command) == code
        assert said in capsys.readouterr().err
    assert load("more.pth", "cpu").items[-3:] == ["cold", "colder", "blue"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_comes_without_torch_pandas_or_recbole(name: str) -> None:
    program = f"""
import sys
from recbole_bert4rec.cli.main import main
try:
    main([{name!r}, "--help"])
except SystemExit:
    print([module for module in ("torch", "pandas", "numpy", "pyarrow", "recbole") if module in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--epochs", "3"], ["--epochs=3"]),
        (["--epochs=3", "--seed", "-1"], ["--epochs=3", "--seed=-1"]),
        (["--exclude_seen", "--epochs", "3"], ["--exclude_seen=True", "--epochs=3"]),
        (["--allow_unknown"], ["--allow_unknown=True"]),
        (["--exclude_seen", "False"], ["--exclude_seen=False"]),
        (["--epochs"], ["--epochs"]),
        (["--epochs", "--seed=1"], ["--epochs", "--seed=1"]),
        (["file.yaml", "--topk", "[1, 2]"], ["file.yaml", "--topk=[1, 2]"]),
    ],
    ids=str,
)
def test_an_option_and_its_value_may_be_two_words(words: list[str], wanted: list[str]) -> None:
    assert joined(words, words) == wanted


@pytest.mark.parametrize(("model", "option"), [("BERT4Rec", "--warmup_steps"), ("GRU4Rec", "--dropout_prob")])
def test_help_names_the_options_of_the_model(model: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["run", f"--model={model}", "--help"])
    assert end.value.code == 0
    assert f"{option} VALUE" in capsys.readouterr().out


def test_an_option_that_only_some_of_the_compared_models_know_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("recbole_bert4rec.experiments.compare.in_own_process", stop)
    assert main(["--model=BERT4Rec,GRU4Rec,Pop", "--seeds=3", "--num_layers=2", "--use_gpu=False"]) == 130
    said = capsys.readouterr()
    assert said.out.count("num_layers") == 1
    assert "BERT4Rec, Pop" in said.out
    assert "num_layers" not in said.err
