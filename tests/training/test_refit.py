"""Training once more with the validation items, or with everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from recbole_bert4rec.checkpoints import last_of, read
from recbole_bert4rec.training.run import run
from tests.helpers.runs import arguments
from tests.helpers.small import ROWS


def run_in(folder: str, options: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The record of a run that keeps its files in a folder of its own."""
    return run(**arguments(options, checkpoint_dir=folder, **more)).record


def test_the_refitted_model_is_that_of_a_run_without_validation_and_none_is_trained_anew_after_the_end(
    options: dict[str, Any],
) -> None:
    plain = run_in("plain", options, epochs=3)
    refitted = run_in("refitted", options, epochs=3, refit="train+valid")
    assert refitted["test_result"] == plain["test_result"]
    told = refitted["refit"]
    assert told["epochs"] == refitted["best_epoch"] + 1
    assert told["test_result"].keys() == refitted["test_result"].keys()
    assert told["test_result"] != refitted["test_result"]
    assert Path(told["checkpoint"]).is_file()
    by_hand = run_in("by-hand", options, epochs=told["epochs"], eval_args={"split": {"LS": "test_only"}})
    assert told["test_result"] == by_hand["test_result"]
    run(resume=last_of(refitted["checkpoint"]), **arguments(options, epochs=3, refit="train+valid"))
    (path,) = Path("refitted").glob("*-again-*.json")
    again = json.loads(path.read_text())
    assert "refit" not in again
    assert again["test_result"] == refitted["test_result"]


def test_a_refit_on_all_is_a_training_that_holds_nothing_out(options: dict[str, Any]) -> None:
    record = run_in("all", options, epochs=3, refit="all", keep_histories=True)
    told = record["refit"]
    assert told["test_result"] == {}
    assert told["epochs"] == record["best_epoch"] + 1
    items = [item for _, item, _ in ROWS]
    counts = [items.count(item) for item in read(record["checkpoint"])["item_tokens"]]
    assert read(told["checkpoint"])["item_counts"].tolist() == counts
    whole = {"split": {"RS": [1, 0, 0]}, "group_by": "user", "order": "TO"}
    by_hand = run_in("by-hand", options, epochs=told["epochs"], eval_args=whole)
    weights, wanted = (read(file)["state_dict"] for file in (told["checkpoint"], by_hand["checkpoint"]))
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)
