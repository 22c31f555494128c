"""What a search does with the scores of its settings, without training any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tqdm import tqdm

from recbole_bert4rec.experiments.search_report import _axis, page
from recbole_bert4rec.experiments.space import Parameter, Space, key_of
from recbole_bert4rec.experiments.tune import Trials, _search_by_bayes

LINE: Space = (Parameter("x", "uniform", (-1.0, 1.0)),)
FEW: Space = (Parameter("a", "choice", (1, 2, 3)), Parameter("b", "choice", (["x"], ["y", "z"])))


def record_of(score: float, name: str = "some") -> dict[str, Any]:
    times = {"total": 1.0}
    facts = {"best_valid_score": score, "best_epoch": 0, "epochs": [{}], "seconds": times, "checkpoint": f"{name}.pth"}
    return {**facts, "best_valid_result": {"ndcg@10": score}, "test_result": {}}


def bayes(
    space: Space, total: int, score: Callable[[dict[str, Any]], float | None], seed: int = 0, bigger: bool = True
) -> tuple[Trials, list[dict[str, Any]]]:
    """The trials of a search, and the settings that were tried."""
    trials = Trials(Path(), total, "NDCG@10", bigger, tqdm(disable=True))
    tried: list[dict[str, Any]] = []

    def attempt(setting: dict[str, Any], watch: Any) -> dict[str, Any]:
        tried.append(setting)
        value = score(setting)
        return {"reason": "it failed"} if value is None else record_of(value)

    _search_by_bayes(attempt, trials, space, seed)
    return trials, tried


def test_bayes_tries_no_setting_twice_and_all_of_a_small_space() -> None:
    trials, tried = bayes(FEW, 6, lambda setting: float(setting["a"]))
    assert len({key_of(setting) for setting in tried}) == len(tried) == len(trials.ended) == 6
    assert {type(setting["b"]) for setting in tried} == {list}


def test_bayes_proposes_the_same_for_the_same_seed_and_scores() -> None:
    first, again, other = (bayes(LINE, 30, lambda setting: -abs(setting["x"] - 0.7), seed)[1] for seed in (1, 1, 2))
    assert first == again != other


def test_bayes_goes_where_scores_are_better_and_bears_failed_trials() -> None:
    distance = {}
    for bigger in (True, False):
        _, tried = bayes(LINE, 60, lambda s: None if 0.4 < s["x"] < 0.5 else s["x"] ** 2, bigger=bigger)
        distance[bigger] = sum(abs(setting["x"]) for setting in tried[30:]) / 30
    assert distance[False] < 0.5 < distance[True]


def test_a_search_whose_trials_all_fail_has_no_best_one() -> None:
    trials, _ = bayes(LINE, 5, lambda setting: None)
    assert trials.ranking == []
    assert len(trials.failed) == 5


@pytest.mark.parametrize(("bigger", "winner"), [(True, 2), (False, 0)])
def test_the_best_is_by_score_and_of_equal_ones_the_first_and_keeps_its_weights_alone(
    tmp_path: Path, bigger: bool, winner: int
) -> None:
    trials = Trials(tmp_path, 5, "NDCG@10", bigger, tqdm(disable=True))
    for number, score in ((3, 0.9), (1, 0.5), (0, 0.5), (2, 0.9), (4, None)):
        for ending in (".pth", ".last.pth"):
            (tmp_path / f"run-{number}{ending}").write_text("weights")
        record = {"reason": "it broke"} if score is None else record_of(score, f"run-{number}")
        trials.end({"a": number}, record, number)
    assert trials.ranking[0]["number"] == winner
    assert [trial["best_valid_score"] for trial in trials.ranking] == sorted([0.5, 0.5, 0.9, 0.9], reverse=bigger)
    kept = {file.name.split(".")[0] for file in tmp_path.iterdir()}
    assert kept == {f"run-{winner}", "run-4"}, "a failed trial may go on"


def test_hostile_names_are_text_on_the_page() -> None:
    hostile = "</script><script>alert(1)</script>"
    ranking = [{**record_of(score), "setting": {hostile: value}} for score, value in ((0.5, hostile), (0.4, "b"))]
    assert hostile not in page(ranking, "NDCG@10", hostile).to_html(include_plotlyjs=False)


def test_numbers_stand_at_their_size_and_all_else_at_its_rank() -> None:
    assert _axis(pd.Series([1, 2, 4], name="a"))["values"].tolist() == [1, 2, 4]
    for values, ranks in (([True, False], [1, 0]), (["b", None], [1, 0]), ([[2], [1]], [1, 0])):
        assert list(_axis(pd.Series(values, name="a", dtype=object))["values"]) == ranks
