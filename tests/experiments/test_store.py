"""A store of runs: what is finished answers at once, and what a kill or a fault left is made whole again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recbole_bert4rec.experiments.store import run_once
from recbole_bert4rec.system.processes import FailedError
from tests.helpers.runs import MRR_OF_3, arguments
from tests.helpers.small import ROWS, SMALL

FOLDER = Path("runs")
LONG_ENOUGH = [row for row in ROWS if int(row[0][1:]) % 12]
LEAVE_ONE_OUT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}
PROTOCOLS = ("one.yaml", "other.yaml")


@pytest.fixture
def once(write_inter: Any) -> Any:
    """Make a small run; return its record, and the numbers of epochs that were seen while it was made."""
    options = {**SMALL, **MRR_OF_3, **write_inter(LONG_ENOUGH), "epochs": 2, "eval_args": LEAVE_ONE_OUT}
    for name in PROTOCOLS:
        Path(name).write_text("topk: [5]\nmetrics: [Hit]\nvalid_metric: Hit@5\n")

    def make(model: str = "BERT4Rec", protocol: str = "one.yaml", threads: int = 1, **more: Any) -> Any:
        seen: list[int] = []
        how: dict[str, Any] = {"protocols": [protocol], "threads": threads, "seed": 7, **arguments(options, **more)}
        return run_once(FOLDER, model, watch=lambda now: seen.append(len(now["epochs"])), **how), seen

    return make


def test_a_run_is_made_once_by_its_protocols_and_again_where_it_is_damaged_or_lacks_what_comes_after_the_test(
    once: Any,
) -> None:
    first, seen = once()
    assert seen[-1] == 2
    assert once() == (first, [])
    other, _ = once(protocol="other.yaml", threads=2)
    assert other["also"].keys() == {"other.yaml"}
    assert other["test_result"] == first["test_result"]
    assert [record["machine"]["threads"] for record in (first, other)] == [1, 2]
    name = Path(first["checkpoint"]).stem
    file, ranks = FOLDER / f"{name}.json", FOLDER / f"{name}.parquet"
    for damage in ("json", "parquet", "test alone"):
        if damage == "json":
            file.write_bytes(file.read_bytes()[:-9])
        elif damage == "parquet":
            ranks.write_bytes(ranks.read_bytes()[:100])
        else:  # as a kill leaves it while the protocols are tested
            file.write_text(json.dumps({key: value for key, value in first.items() if key != "also"}))
            ranks.unlink()
        again, seen = once()
        assert seen
        assert all(again[key] == first[key] for key in ("test_result", "also", "best_epoch"))
        assert sorted(pd.read_parquet(ranks)["protocol"].unique()) == ["", "one.yaml"]
    assert not list(FOLDER.glob("*-again-*"))


def test_a_failure_names_its_log(once: Any) -> None:
    with pytest.raises(FailedError, match=r"hidden size.*\.log\)"):
        once("SASRec", n_heads=3)
