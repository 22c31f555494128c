"""A trial of a search trains and validates as a run does."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.system.interrupts import Interrupted, handled
from recbole_bert4rec.training.run import run
from recbole_bert4rec.tuning.objective import Task, packed_data, run_trial
from tests.helpers.runs import QUIET

ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t) for u in range(1, 31) for t in range(4 + u % 10)]


@pytest.mark.parametrize("exclude_seen", [True, False, None])
@pytest.mark.parametrize("packed", [True, False])
def test_a_trial_follows_exclude_seen_as_a_run_does(exclude_seen: bool | None, packed: bool, write_inter: Any) -> None:
    columns = {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
    split = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}
    options = {**QUIET, **write_inter(ROWS), "exclude_seen": exclude_seen, "eval_args": split, **columns, "topk": [3]}
    options["valid_metric"] = "MRR@3"
    dataset = options.pop("dataset")
    task = Task("Pop", dataset, fixed=options)
    trial = run_trial(task, {}, packed_data(task) if packed else None, None, lambda news: None)
    assert trial["valid"] == run(model="Pop", dataset=dataset, options=options).best_valid_result


def test_a_budget_ends_a_trial_before_its_epochs_do(write_inter: Any) -> None:
    options = {**QUIET, **write_inter(ROWS), "hidden_size": 8, "epochs": 1_000_000, "stopping_step": 1_000_000}
    task = Task("BERT4Rec", options.pop("dataset"), fixed=options, budget=1.0)
    trial = run_trial(task, {}, None, None, lambda news: None)
    assert 1 < trial["epochs"] < 1000
    assert trial["valid"]


def test_a_trial_that_was_interrupted_goes_on_to_the_same_result(write_inter: Any) -> None:
    options = {**QUIET, **write_inter(ROWS), "hidden_size": 8, "epochs": 5, "stopping_step": 9}
    task = Task("BERT4Rec", options.pop("dataset"), fixed=options)
    whole = run_trial(task, {"mask_ratio": 0.3}, None, "whole.pth", lambda news: None)

    def stop(news: Any) -> None:
        if news["epoch"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with handled(), pytest.raises(Interrupted):
        run_trial(task, {"mask_ratio": 0.3}, None, "a.pth", stop)
    Path("b.last.pth").write_bytes(Path("a.last.pth").read_bytes())
    reported: list[int] = []
    again = run_trial(task, {"mask_ratio": 0.3}, None, "a.pth", lambda news: reported.append(news["epoch"]))
    assert reported == [4, 5]
    assert {**again, "seconds": 0} == {**whole, "seconds": 0}
    run_trial(task, {"mask_ratio": 0.4}, None, "b.pth", lambda news: reported.append(news["epoch"]))
    assert reported == [4, 5, 1, 2, 3, 4, 5], "the training of another setting is not gone on with"
