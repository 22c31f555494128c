"""Times of a question are read as those of the training log were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recbole_bert4rec import load, run
from recbole_bert4rec.recommend.export import export
from recbole_bert4rec.system.errors import UserError
from tests.helpers.extras import needs_onnx
from tests.helpers.runs import QUIET
from tests.helpers.small import SMALL

DAYS = [f"2024{1 + n // 28:02}{1 + n % 28:02}" for n in range(300)]
HISTORIES, TIMES = [["i1", "i2", "i3"], ["i5"]], [[20240101, 20240201, 20240301], [20240401]]


def trained(times: list[str], ending: str = ".csv") -> Path:
    """Train a model that uses the times between items, which it has learnt nothing of: its bias is drawn."""
    rows = [(f"u{n % 30}", f"i{(n * 7) % 23}", times[n]) for n in range(300)]
    frame = pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp"])
    if ending == ".csv":
        frame.to_csv("log.csv", index=False)
    options = {**QUIET, **SMALL, "epochs": 1, "time_bias": True, "topk": [3], "valid_metric": "MRR@3"}
    result = run(dataset="log.csv", options=options)
    assert result.checkpoint is not None
    return result.checkpoint


def with_bias(checkpoint: Path) -> Any:
    model = load(checkpoint, "cpu")
    bias = model.ranker.encoder.time_bias.bias
    bias.data.copy_(bias.data.new_tensor(np.random.default_rng(0).normal(0, 3, tuple(bias.shape))))
    return model


def scores(model: Any, times: Any) -> list[float]:
    found: list[float] = model.recommend(HISTORIES, k=20, times=times, filter_viewed=False)["score"].tolist()
    return found


def test_dates_run_together_are_dates_as_whole_numbers_floats_and_texts() -> None:
    model = with_bias(trained(DAYS))
    seconds = [[pd.Timestamp(str(time)).timestamp() for time in times] for times in TIMES]
    expected = scores(model, [[time.isoformat() for time in map(pd.Timestamp, map(str, times))] for times in TIMES])
    for times in (TIMES, [list(map(float, one)) for one in TIMES], [list(map(str, one)) for one in TIMES]):
        assert scores(model, times) == expected
    with pytest.raises(UserError, match="must hold dates like %Y%m%d, as before, but 4 of 4 values do not fit"):
        scores(model, seconds)


def test_numbers_stay_numbers_though_they_might_be_dates() -> None:
    model = with_bias(trained([str(10**6 * n) for n in range(300)]))
    assert model.dates.like == "numbers"
    assert scores(model, TIMES) == scores(model, [[float(time) for time in times] for times in TIMES])
    shifted = [[time + 10**6 for time in times] for times in TIMES]
    assert scores(model, TIMES) == scores(model, shifted)  # the same gaps: as dates they would be none, or others


@needs_onnx
def test_an_exported_model_reads_them_so_too() -> None:
    model = with_bias(trained(DAYS))
    export(model, "out")
    np.testing.assert_allclose(scores(load("out"), TIMES), scores(model, TIMES), atol=1e-4)
