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


def results_of_readme() -> dict[str, dict[str, str]]:
    """The cells of README's table under *Results*, by log and column."""
    return table_of(ROOT / "README.md", "Results")


def table_of(page: Path, title: str) -> dict[str, dict[str, str]]:
    """The cells of the table under a title, by the first cell of their row and by column."""
    section = page.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def test_readme_has_a_row_for_each_of_five_logs() -> None:
    assert tuple(results_of_readme()) == LOGS


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("model", MODELS)
def test_a_figure_of_readme_is_the_mean_and_deviation_of_three_seeds_or_more(log: str, model: str) -> None:
    rows = json.loads((ROOT / "results" / "leaderboard" / f"{log}.json").read_text())
    runs = next(row["runs"] for row in rows if row["description"] == model)
    figures = [run["metrics"]["test"]["NDCG@10"] for run in runs]
    assert len({run["params"]["seed"] for run in runs}) == len(figures) >= 3
    shown = re.fullmatch(r"(\.\d{4}) ± (\.\d{4})", results_of_readme()[log][model])
    assert shown
    mean, deviation = map(float, shown.groups())
    assert mean == pytest.approx(statistics.mean(figures), abs=0.000051)
    assert deviation == pytest.approx(statistics.stdev(figures), abs=0.000051)


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("column", ["best of others", "BERT4Rec of others"])
def test_figures_and_sources_of_others_in_readme_are_those_of_the_leaderboard(log: str, column: str) -> None:
    leaderboard = table_of(ROOT / "results" / "leaderboard.md", "NDCG@10 beside published figures")
    facts = re.compile(r"\.\d{4}|\(\[.*?\]\)")
    in_readme = set(facts.findall(results_of_readme()[log][column]))
    assert in_readme <= set(facts.findall(leaderboard[log][column]))
    assert in_readme or leaderboard[log][column] == results_of_readme()[log][column]
