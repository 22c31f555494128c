"""Training once more with the validation items, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.cli.main import main
from tests.helpers.small import ROWS, SMALL


@pytest.fixture
def flags(write_inter: Any) -> list[str]:
    options = {**SMALL, **write_inter(ROWS), "use_gpu": False, "show_progress": False}
    return [f"--{key}={value}" for key, value in options.items()]


def run_in(folder: str, *flags: str) -> dict[str, Any]:
    """The record of a run that keeps its files in a folder of its own."""
    assert main([*flags, f"--checkpoint_dir={folder}"]) == 0
    (path,) = Path(folder).glob("BERT4Rec-*.json")
    return json.loads(path.read_text())


def test_the_refitted_model_is_that_of_a_run_without_validation_over_as_many_epochs(flags: list[str]) -> None:
    plain = run_in("plain", *flags, "--epochs=3")
    refitted = run_in("refitted", *flags, "--epochs=3", "--refit=train+valid")
    assert refitted["test_result"] == plain["test_result"]
    told = refitted["refit"]
    assert told["epochs"] == refitted["best_epoch"] + 1
    assert set(told["test_result"]) == set(refitted["test_result"])
    assert told["test_result"] != refitted["test_result"]
    assert Path(told["checkpoint"]).is_file()
    by_hand = run_in("by-hand", *flags, f"--epochs={told['epochs']}", "--eval_args={'split':{'LS':'test_only'}}")
    assert told["test_result"] == by_hand["test_result"]


def test_nothing_is_trained_anew_where_nothing_was_trained(flags: list[str]) -> None:
    record = run_in("first", *flags, "--epochs=1", "--refit=train+valid")
    assert "refit" in record
    arguments = [*flags, "--epochs=1", "--refit=train+valid", f"--resume={record['checkpoint']}"]
    assert main(arguments) == 0
    (path,) = Path("first").glob("*-again-*.json")
    again = json.loads(path.read_text())
    assert "refit" not in again
    assert again["test_result"] == record["test_result"]


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("--eval_args={'split': {'LS': 'valid_only'}}", "`eval_args`"),
        ("--benchmark_filename=['a','b','c']", "`benchmark_filename`"),
        ("--eval_step=0", "`eval_step`"),
    ],
)
def test_a_run_that_chooses_no_epoch_on_validation_items_is_refused(
    flags: list[str], more: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*flags, "--refit=train+valid", more]) == 2
    assert named in capsys.readouterr().err
    assert not Path("saved").exists() or not list(Path("saved").iterdir())
