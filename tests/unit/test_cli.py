"""The command lines: flags that do not go together, and Ctrl-C."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from recbole.config import Config

from recbole_bert4rec.cli.main import COMMANDS, main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--k=5"], "--k says how many items --recommend=FILE writes"),
        (["--metrics=a=b"], "RecBole takes no '=' inside a value"),
        (["--nproc=2", "--budget=3s"], "--budget works in one process only"),
        (["--nproc=2", "--attention=a.png"], "--attention works in one process only"),
        (["--output_dir=x"], "--output_dir is for several models or --seeds"),
        (["--model=Pop,BERT4Rec", "--resume=x.pth"], "--resume is for a single run"),
        (["--study=ablation.yaml", "--model=Pop,SASRec"], "a study varies one model"),
        (["--seeds=2", "--nproc=2"], "one process each"),
        (["--seeds=0"], "must be at least 1"),
        (["--nproc=0"], "--nproc=0 must be at least 1"),
        (["--seeds=2", "--seed=one"], "must be a whole number"),
        (["--model=,"], "has an empty name"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
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
        (["--a=b=c"], "argument '--a=b=c': RecBole takes no '=' inside a value"),
    ],
)
def test_flags_of_a_search_that_do_not_go_together_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "--params_file=none.hyper", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "interrupted; the best checkpoint so far is kept"),
        (["--model=Pop,BERT4Rec"], "the same command does the rest"),
        (["compare", "--model=Pop,BERT4Rec"], "the same command does the rest"),
        (["study", "ablation.yaml"], "the same command does the rest"),
        (["tune", "--params_file=a.hyper"], "--resume goes on from there"),
    ],
    ids=["run", "run-several", "compare", "study", "tune"],
)
def test_ctrl_c_is_one_line_and_an_exit_code_of_its_own(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    Path("a.hyper").write_text("hidden_size choice [8, 16]\n")
    monkeypatch.setattr(Config, "__init__", interrupted)
    assert main(arguments) == 130
    assert words in capsys.readouterr().err


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, command in COMMANDS.items():
        assert any(line.split(maxsplit=1) == [name, command.purpose] for line in lines)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_under_the_name_it_was_called_by(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: recbole-bert4rec {name} ")
    monkeypatch.setattr(sys, "argv", ["/somewhere/mine.py"])
    with pytest.raises(SystemExit):
        main(["--help"], name=name)
    assert capsys.readouterr().out.startswith("usage: mine.py ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tun"], "there is no command 'tun'; did you mean tune?"),
        (["xyz"], "there is no command 'xyz'; the commands are run, compare, study, tune, doctor"),
        (["--recomend=top.csv"], "`--recomend`: did you mean `--recommend`?"),
        (["compare", "--seds=3"], "`--seds`: did you mean `--seeds`?"),
        (["tune", "--params_file=a", "--max_eval=3"], "`--max_eval`: did you mean `--max_evals`?"),
        (["doctor", "--x=1"], "doctor takes no options, but got --x=1"),
        (["--early_stop=3"], "`early_stop`: neither RecBole nor BERT4Rec has an option of this name"),
        (["--data-path=x"], "`data-path`: did you mean `data_path`?"),
        (["--model=SASRec", "--early_stop=3"], "`early_stop`: neither RecBole nor BERT4Rec"),
    ],
)
def test_what_is_misspelt_is_refused_before_anything_runs(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
    assert not list(Path().glob("*"))


def test_a_command_whose_packages_are_missing_points_to_the_doctor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "recbole_bert4rec.cli.tune", None)
    assert main(["tune"]) == 1
    assert "`python -m recbole_bert4rec doctor` says what is missing" in capsys.readouterr().err
