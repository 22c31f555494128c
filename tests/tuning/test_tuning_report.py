"""The page of a search: hostile names are text, and dollar signs no mathematics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recbole_bert4rec.tuning.report import axis_of, importance, read_trials, write_report
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


def test_a_data_set_or_a_choice_that_is_a_tag_stays_text(tmp_path: Path) -> None:
    trials = log_of(tmp_path / "some.jsonl", [f"</script>{TAG}", "$\\frac$"])
    written = write_report(trials, tmp_path / "some.html")
    page = written["plots"].read_text("utf-8")
    assert set(written) == {"plots", "coordinates", "importance"}
    assert all(path.stat().st_size > 1000 for path in written.values())
    assert TAG not in page
    assert "<title>BERT4Rec on &lt;img src=x onerror=alert(1)&gt;: 20 trials</title>" in page
    assert page.count('class="plotly-graph-div"') == 4


def test_failed_trials_are_not_drawn_and_few_tell_no_importance(tmp_path: Path) -> None:
    search = read_trials(log_of(tmp_path / "some.jsonl", [1, 2]))
    assert search.parameters == ["act", "lr"]
    assert len(search.trials) == 20
    assert importance(search.trials) is not None
    assert importance(search.trials.head(19)) is None


def test_importance_finds_what_the_score_depends_on() -> None:
    random = np.random.default_rng(0)
    trials = pd.DataFrame({"number of the trial": range(60), "rate": 10 ** random.uniform(-4, -1, 60)})
    trials["idle"] = random.uniform(size=60)
    trials["score of the trial"] = -((np.log10(trials["rate"]) + 2.5) ** 2) + random.normal(0, 0.05, 60)
    found = importance(trials)
    assert found is not None
    assert list(found.index) == ["idle", "rate"]
    assert found["mean"]["rate"] - 2 * found["std"]["rate"] > 0
    assert found["mean"]["idle"] - 2 * found["std"]["idle"] < 0.05
    assert importance(trials.assign(**{f"p{n}": 0.0 for n in range(11)})) is None


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
