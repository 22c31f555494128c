"""The command lines: flags that do not go together, and Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recbole.config import Config

from recbole_bert4rec.cli import run, tune


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--k=5"], "--k says how many items --recommend=FILE writes"),
        (["--metrics=a=b"], "RecBole takes no '=' inside a value"),
        (["--nproc=2", "--budget=3s"], "--budget works in one process only"),
        (["--nproc=2", "--attention=a.png"], "--attention works in one process only"),
        (["--output_dir=x"], "--output_dir is for several models or --seeds"),
        (["--model=Pop,BERT4Rec", "--resume=x.pth"], "--resume is for a single run"),
        (["--study=ablation.yaml", "--model=SASRec"], "a variant may name its `model`"),
        (["--seeds=2", "--nproc=2"], "one process each"),
        (["--seeds=0"], "must be at least 1"),
        (["--seeds=2", "--seed=one"], "must be a whole number"),
        (["--model=,"], "has an empty name"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert words in said
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpus_per_trial=-1", "--tool=Ray"], "--gpus_per_trial must be at least 0, but is -1"),
        (["--tool=Ray", "--gpu_id=0"], "--gpu_id does not go with --tool=Ray"),
        (["--gpus_per_trial=1", "--ray_address=a:1"], "--ray_address needs --tool=Ray; --gpus_per_trial needs"),
        (["--algo=random", "--max_evals=0", "--cpus_per_trial=0"], "--max_evals must be at least 1, but is 0"),
        (["--a=b=c"], "argument '--a=b=c' is not understood"),
    ],
)
def test_flags_of_a_search_that_do_not_go_together_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.main(["--params_file=none.hyper", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("main", "arguments", "words"),
    [
        (run.main, [], "interrupted; the best checkpoint so far is kept"),
        (run.main, ["--model=Pop,BERT4Rec"], "the same command does the rest"),
        (tune.main, ["--params_file=a.hyper"], "--resume goes on from there"),
    ],
    ids=["run", "compare", "tune"],
)
def test_ctrl_c_is_one_line_and_an_exit_code_of_its_own(
    main: Any, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    Path("a.hyper").write_text("hidden_size choice [8, 16]\n")
    monkeypatch.setattr(Config, "__init__", interrupted)
    assert main(arguments) == 130
    assert words in capsys.readouterr().err
