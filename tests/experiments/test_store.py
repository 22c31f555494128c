"""A store of runs: what is finished answers at once, and what a kill or a fault left is made whole again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recbole_bert4rec.experiments.store import run_once
from recbole_bert4rec.system.processes import FailedError
from tests.helpers.runs import MRR_OF_3, QUIET
from tests.helpers.small import ROWS, SMALL

FOLDER = Path("runs")
LONG_ENOUGH = [row for row in ROWS if int(row[0][1:]) % 12]
LEAVE_ONE_OUT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}


def once(write_inter: Any, model: str = "BERT4Rec", **more: Any) -> tuple[dict[str, Any], list[int]]:
    """The record of a small run, and the numbers of epochs that were seen while it was made."""
    options = {**QUIET, **SMALL, **MRR_OF_3, **write_inter(LONG_ENOUGH), "epochs": 2, "eval_args": LEAVE_ONE_OUT}
    seen: list[int] = []
    how = {"protocols": more.pop("protocols", ()), "threads": more.pop("threads", None)}
    options = {**options, **more}
    record = run_once(
        FOLDER, model, options.pop("dataset"), options, 7, watch=lambda now: seen.append(len(now["epochs"])), **how
    )
    return record, seen


def test_a_run_is_made_once_and_another_protocol_s_name_is_another_run(write_inter: Any) -> None:
    for name in ("one.yaml", "other.yaml"):
        Path(name).write_text("topk: [5]\nmetrics: [Hit]\nvalid_metric: Hit@5\n")
    first, seen = once(write_inter, protocols=["one.yaml"])
    assert seen
    assert seen[-1] == 2
    again, unseen = once(write_inter, protocols=["one.yaml"])
    assert (again, unseen) == (first, [])
    other, _ = once(write_inter, protocols=["other.yaml"])
    assert other["also"].keys() == {"other.yaml"}
    assert other["test_result"] == first["test_result"]


@pytest.mark.parametrize("damage", ["json", "parquet", "test alone"])
def test_what_is_damaged_or_lacks_what_comes_after_the_test_is_made_again(damage: str, write_inter: Any) -> None:
    Path("one.yaml").write_text("topk: [5]\nmetrics: [Hit]\nvalid_metric: Hit@5\n")
    first, _ = once(write_inter, protocols=["one.yaml"])
    name = Path(first["checkpoint"]).stem
    file, ranks = FOLDER / f"{name}.json", FOLDER / f"{name}.parquet"
    if damage == "json":
        file.write_bytes(file.read_bytes()[:-9])
    elif damage == "parquet":
        ranks.write_bytes(ranks.read_bytes()[:100])
    else:  # as a kill leaves it while the protocols are tested
        file.write_text(json.dumps({key: value for key, value in first.items() if key != "also"}))
        ranks.unlink()
    again, seen = once(write_inter, protocols=["one.yaml"])
    assert seen
    assert {key: again[key] for key in ("test_result", "also", "best_epoch")} == {
        key: first[key] for key in ("test_result", "also", "best_epoch")
    }
    assert sorted(pd.read_parquet(ranks)["protocol"].unique()) == ["", "one.yaml"]
    assert not list(FOLDER.glob("*-again-*"))


def test_threads_are_those_that_are_asked_for_and_a_failure_names_its_log(write_inter: Any) -> None:
    for n in (1, 2):
        record, _ = once(write_inter, threads=n, topk=[n], valid_metric=f"MRR@{n}")
        assert record["machine"]["threads"] == n
    with pytest.raises(FailedError, match=r"hidden size.*\.log\)"):
        once(write_inter, "SASRec", n_heads=3)
