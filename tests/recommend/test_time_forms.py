"""Times of a question are read as those of the training log were."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from recbole_bert4rec import load, run
from recbole_bert4rec.recommend.export import export
from recbole_bert4rec.system.errors import UserError
from tests.helpers.extras import needs_onnx
from tests.helpers.runs import QUIET
from tests.helpers.small import SMALL

DAYS = [f"2024{1 + n // 28:02}{1 + n % 28:02}" for n in range(300)]


def trained(times: list[str]) -> Any:
    rows = [(f"u{n % 30}", f"i{(n * 7) % 23}", times[n]) for n in range(300)]
    pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp"]).to_csv("log.csv", index=False)
    options = {**QUIET, **SMALL, "epochs": 1, "topk": [3], "valid_metric": "MRR@3"}
    result = run(dataset="log.csv", options=options)
    assert result.checkpoint is not None
    return load(result.checkpoint, "cpu")


def order(model: Any, times: list[Any]) -> list[str]:
    """Items of a history in the order in which the model reads them."""
    items = [f"i{place}" for place in range(len(times))]
    known = model.read(pd.DataFrame({"user_id": ["u"] * len(times), "item_id": items, "timestamp": times}))
    return [model.items[item - 1] for item in known.items]


def test_dates_run_together_are_dates_as_whole_numbers_floats_and_texts() -> None:
    model, dates = trained(DAYS), [20240301, 20240101, 20240201]
    for times in (dates, [*map(float, dates)], [*map(str, dates)], ["2024-03-01", "2024-01-01", "2024-02-01"]):
        assert order(model, times) == ["i1", "i2", "i0"]
    with pytest.raises(UserError, match="must hold dates like %Y%m%d, as before, but 3 of 3 values do not fit"):
        order(model, [1_700_000_002, 1_700_000_000, 1_700_000_001])


def test_numbers_stay_numbers_though_they_might_be_dates() -> None:
    model = trained([str(10**6 * n) for n in range(300)])
    assert model.dates.like == "numbers"
    assert order(model, [20240301, 20249999, 20240201]) == ["i2", "i0", "i1"]


@needs_onnx
def test_an_exported_model_reads_them_so_too() -> None:
    export(trained(DAYS), "out")
    with pytest.raises(UserError, match="must hold dates like %Y%m%d"):
        order(load("out"), [1_700_000_002, 1_700_000_000])
