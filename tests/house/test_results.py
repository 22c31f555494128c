"""README's table of results holds the leaderboard's figures."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOGS = ("ml-1m", "beauty-5core", "toys-5core", "beauty", "lastfm")
MODELS = ("BERT4RecPlus", "BERT4Rec")


@pytest.mark.parametrize("log", LOGS)
def test_a_figure_of_readme_is_the_mean_and_deviation_of_three_seeds_or_more(log: str) -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "leaderboard" / f"{log}.json").read_text())
    [line] = re.findall(rf"^\| {log} \|.*", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    for model, cell in zip(MODELS, line.split("|")[2:], strict=False):
        runs = next(row["runs"] for row in rows if row["description"] == model)
        figures = [run["metrics"]["test"]["NDCG@10"] for run in runs]
        assert len({run["params"]["seed"] for run in runs}) == len(figures) >= 3
        mean, deviation = map(float, cell.split("±"))
        assert mean == pytest.approx(statistics.mean(figures), abs=0.000051)
        assert deviation == pytest.approx(statistics.stdev(figures), abs=0.000051)
