"""The page of a search: hostile names are text, and where values stand on an axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recbole_bert4rec.tuning.report import axis_of, write_report
from recbole_bert4rec.tuning.trials import FAILED, Trial, TrialLog

TAG = "<img src=x onerror=alert(1)>"


def log_of(path: Path, choices: list[Any], trials: int = 20) -> Path:
    about = {"model": "BERT4Rec", "dataset": TAG, "metric": "NDCG@10", "bigger": True}
    log = TrialLog(path, {**about, "space": {"act": ["choice", *choices], "lr": ["uniform", 0, 1]}}, resume=False)
    for number in range(trials):
        params = {"act": choices[number % len(choices)], "lr": number / trials}
        log.add(Trial(number, params, score=0.1 + 0.05 * (number % 4)))
    log.add(Trial(trials, {"act": choices[0], "lr": 0.95}, status=FAILED, reason="broken"))
    return path


def test_a_data_set_or_a_choice_that_is_a_tag_stays_text_and_failed_trials_are_not_drawn(tmp_path: Path) -> None:
    trials = log_of(tmp_path / "some.jsonl", [f"</script>{TAG}", "plain"])
    write_report(trials, tmp_path / "some.html")
    page = (tmp_path / "some.html").read_text("utf-8")
    assert TAG not in page
    assert "&lt;img src=x onerror=alert(1)&gt;: 20 trials</title>" in page
    assert page.count('class="plotly-graph-div"') == 2


def test_numbers_are_drawn_at_their_size_and_wide_ones_at_their_logarithm() -> None:
    plain = axis_of("n", pd.Series([1, 2, 4, 2]), "choice")
    assert plain.positions.tolist() == [1, 2, 4, 2]
    assert (plain.ticks.tolist(), plain.labels) == ([1, 2, 4], ["1", "2", "4"])
    wide = axis_of("rate", pd.Series([0.0001, 0.01, 0.001]), "choice")
    assert wide.positions.tolist() == pytest.approx([-4, -2, -3])
    assert wide.labels == ["0.0001", "0.001", "0.01"]
    assert axis_of("dropout", pd.Series([0.001, 0.5]), "uniform").positions.tolist() == [0.001, 0.5]
    assert axis_of("n", pd.Series([0, 100]), "choice").positions.tolist() == [0, 100]
    many = axis_of("rate", pd.Series(np.logspace(-4, 0, 50)), "loguniform10")
    assert many.labels == ["0.0001", "0.001", "0.01", "0.1", "1"]
    words = axis_of("act", pd.Series(["relu", None, "gelu", True]), "choice")
    assert words.labels == ["None", "True", "gelu", "relu"]
    assert words.positions.tolist() == [3, 0, 2, 1]
