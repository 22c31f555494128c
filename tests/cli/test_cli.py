"""The command lines: flags that do not go together, and Ctrl-C."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recbole.config import Config

from recbole_bert4rec.cli.main import COMMANDS, main
from recbole_bert4rec.cli.words import joined
from recbole_bert4rec.system import extras


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--k=5"], "--k says how many items --recommend=FILE writes"),
        (["--metrics=a=b"], "RecBole takes no '=' inside a value"),
        (["--nproc=2", "--budget=3s"], "--budget works in one process only"),
        (["--output_dir=x"], "--output_dir is for several models or --seeds"),
        (["--model=Pop,BERT4Rec", "--resume=x.pth"], "--resume is for a single run"),
        (["compare", "--study=ablation.yaml", "--model=Pop,SASRec"], "a study varies one model"),
        (["compare", "--study=none.yaml"], "there is no file none.yaml"),
        (["--seeds=2", "--nproc=2"], "one process each"),
        (["--seeds=2", "--verbose"], "--verbose is for a single run"),
        (["--seeds=0"], "must be at least 1"),
        (["--epochs=3", "--epochs=4"], "`--epochs` is given twice, as 3 and as 4"),
        (["--nproc=0"], "--nproc=0 must be at least 1"),
        (["--nproc=2", "--engine=ray"], "--nproc and --engine=ray start processes that train together"),
        (["--num_workers=2"], "--num_workers goes with --engine=ray"),
        (["--ray_address=auto"], "--ray_address goes with --engine=ray"),
        (["--engine=ray", "--num_workers=0"], "--num_workers=0 must be at least 1"),
        (["--engine=ray", "--budget=3s"], "--budget works in one process only; leave --engine=ray out"),
        (["--engine=ray", "--seeds=2"], "one process each"),
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
        ([], "interrupted; nothing was trained; the same command begins anew"),
        (["--model=Pop,BERT4Rec"], "the same command does the rest"),
        (["compare", "--model=Pop,BERT4Rec"], "the same command does the rest"),
        (["compare", "--study=ablation.yaml"], "the same command does the rest"),
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


def test_the_service_without_its_packages_says_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "uvicorn")
    assert main(["serve", "--checkpoint=m.pth"]) == 1
    assert "error: the service needs uvicorn; in the checkout: pip install -e '.[serve]'" in capsys.readouterr().err


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
        (["xyz"], "there is no command 'xyz'; the commands are run, compare, tune, doctor"),
        (["--recomend=top.csv"], "`--recomend`: did you mean `--recommend`?"),
        (["compare", "--seds=3"], "`--seds`: did you mean `--seeds`?"),
        (["tune", "--params_file=a", "--max_eval=3"], "`--max_eval`: did you mean `--max_evals`?"),
        (["doctor", "--x=1"], "doctor does not know --x=1"),
        (["--data-path=x"], "`data-path`: did you mean `data_path`?"),
        (["--model=SASRec", "--qwertz=3"], "`qwertz`: neither RecBole nor BERT4Rec has an option of this name"),
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


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--epochs", "3"], ["--epochs=3"]),
        (["--epochs=3", "--seed", "-1"], ["--epochs=3", "--seed=-1"]),
        (["--model", "Pop", "--topk", "[1,2]"], ["--model", "Pop", "--topk=[1,2]"]),
        (["--exclude_seen", "--epochs", "3"], ["--exclude_seen=True", "--epochs=3"]),
        (["--allow_unknown"], ["--allow_unknown=True"]),
        (["--exclude_seen", "False"], ["--exclude_seen=False"]),
        (["--epochs"], ["--epochs"]),
        (["--epochs", "--seed=1"], ["--epochs", "--seed=1"]),
        (["file.yaml", "--k", "5"], ["file.yaml", "--k", "5"]),
    ],
    ids=str,
)
def test_an_option_and_its_value_may_be_two_words(words: list[str], wanted: list[str]) -> None:
    assert joined(words, {"--model", "--k"}) == wanted


@given(st.lists(st.text(max_size=5), max_size=4))
def test_what_is_written_with_an_equals_sign_stays_as_it_is(values: list[str]) -> None:
    words = [f"--epochs={value}" for value in values]
    assert joined(words, set()) == words


def test_help_lists_the_options_of_the_model_in_groups_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "model and data:",
        "Training, as --key=value: ",
        "the screen",
        "--data_path VALUE Folder of the data",
    ):
        assert words in said
    assert "--epochs VALUE Passes over all users; the learning rate reaches 0 at the last. auto: 40" in said
    assert "--warmup_steps VALUE Steps of linear warm-up, at most a tenth of the run. (default: 200)" in said
    with pytest.raises(SystemExit):
        main(["run", "--model=GRU4Rec", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "options of RecBole's GRU4Rec, as --key=value:" in said
    assert "--num_layers VALUE The number of layers in GRU. (default: 1)" in said


def test_an_option_that_only_some_of_the_compared_models_know_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("recbole_bert4rec.comparison.compare.in_own_process", stop)
    assert main(["--model=BERT4Rec,GRU4Rec,Pop", "--seeds=3", "--num_layers=2", "--use_gpu=False"]) == 130
    said = capsys.readouterr()
    assert said.out.count("num_layers") == 1
    assert "note: option `num_layers` has no effect on BERT4Rec, Pop" in said.out
    assert "num_layers" not in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tune", "--tool=ray", "--params_file=a"], "argument --tool: invalid choice: 'ray'"),
        (["tune"], "the following arguments are required: --params_file"),
        (["recommend", "--input=a.csv"], "the following arguments are required: --checkpoint"),
    ],
)
def test_a_wrong_flag_of_a_command_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {said}")
    assert line.endswith(f"{words[0]} --help` lists the flags")


def test_a_process_that_torchrun_ends_does_not_say_that_nothing_was_trained(monkeypatch: Any) -> None:
    from recbole_bert4rec.cli import run as command

    monkeypatch.setattr(command, "_is_comparison", lambda options: False)
    assert command.left_behind(argparse.Namespace()) == "nothing was trained; the same command begins anew"
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert command.left_behind(argparse.Namespace()).startswith("the same command with --resume goes on")
