"""Training once more with the validation items, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_bert4rec.checkpoints import read
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


def test_a_refit_on_all_is_a_training_that_holds_nothing_out(flags: list[str]) -> None:
    record = run_in("all", *flags, "--epochs=3", "--refit=all", "--keep_histories=True")
    assert record["refit"]["test_result"] == {}
    assert record["refit"]["epochs"] == record["best_epoch"] + 1
    counted = read(record["refit"]["checkpoint"])["item_counts"]
    assert counted.tolist() == [0, *(sum(item == f"i{n}" for _, item, _ in ROWS) for n in item_numbers(record))]
    by_hand = run_in(
        "by-hand",
        *flags,
        f"--epochs={record['refit']['epochs']}",
        "--eval_args={'split':{'RS':[1,0,0]},'group_by':'user','order':'TO'}",
    )
    weights, wanted = (read(file)["state_dict"] for file in (record["refit"]["checkpoint"], by_hand["checkpoint"]))
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)


def item_numbers(record: dict[str, Any]) -> list[int]:
    """The numbers of the items, in the order of their internal ids."""
    return [int(token[1:]) for token in read(record["checkpoint"])["item_tokens"][1:]]
