"""The page of a search: hostile names are text, and dollar signs no mathematics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recbole_bert4rec.tuning.report import importance, read_trials, write_report
from recbole_bert4rec.tuning.trials import FAILED, Trial, TrialLog

TAG = "<img src=x onerror=alert(1)>"


def log_of(path: Path, choices: list[Any]) -> Path:
    about = {"model": "BERT4Rec", "dataset": TAG, "metric": "NDCG@10", "bigger": True}
    log = TrialLog(path, {**about, "space": {"act": ["choice", *choices], "lr": ["uniform", 0, 1]}}, resume=False)
    for number in range(10):
        params = {"act": choices[number % len(choices)], "lr": number / 10}
        log.add(Trial(number, params, score=0.1 + 0.05 * (number % 4)))
    log.add(Trial(10, {"act": choices[0], "lr": 0.95}, status=FAILED, reason="broken"))
    return path


def test_a_data_set_or_a_choice_that_is_a_tag_stays_text(tmp_path: Path) -> None:
    trials = log_of(tmp_path / "some.jsonl", [f"</script>{TAG}", "$\\frac$"])
    written = write_report(trials, tmp_path / "some.html")
    page = written["plots"].read_text("utf-8")
    assert set(written) == {"plots", "coordinates", "importance"}
    assert all(path.stat().st_size > 1000 for path in written.values())
    assert TAG not in page
    assert "<title>BERT4Rec on &lt;img src=x onerror=alert(1)&gt;: 10 trials</title>" in page
    assert page.count('class="plotly-graph-div"') == 3


def test_failed_trials_are_not_drawn_and_few_tell_no_importance(tmp_path: Path) -> None:
    search = read_trials(log_of(tmp_path / "some.jsonl", [1, 2]))
    assert search.parameters == ["act", "lr"]
    assert len(search.trials) == 10
    assert importance(search.trials) is not None
    assert importance(search.trials.head(7)) is None
