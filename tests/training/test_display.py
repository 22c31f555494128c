"""Results in a notebook: tables and curves that a browser's parser reads, with every text escaped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recbole_bert4rec.comparison.compare import ComparisonResult
from recbole_bert4rec.training.display import curves, page, table
from recbole_bert4rec.training.run import run
from recbole_bert4rec.tuning.trials import FAILED, Trial
from recbole_bert4rec.tuning.tune import SearchResult
from tests.helpers.runs import QUIET
from tests.helpers.small import ROWS, SMALL

NUMBERS = st.floats(-1e6, 1e6)
LINES = st.dictionaries(st.text(max_size=5), st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5), max_size=9)


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.replace("&#9632;", "").replace("&ensp;", ""))


def polylines(text: str) -> list[list[tuple[float, float]]]:
    found = parsed(f"<p>{text}</p>").iter("polyline")
    return [[(float(x), float(y)) for x, y in (p.split(",") for p in one.attrib["points"].split())] for one in found]


@given(lines=LINES)
def test_every_curve_with_points_lies_inside_the_picture(lines: dict[str, list[tuple[float, float]]]) -> None:
    text = curves(lines, "<x>", "a & b")
    drawn = polylines(re.sub(r"[^\x20-\x7e]", "", text))
    assert len(drawn) == sum(1 for line in lines.values() if line)
    for line in drawn:
        assert all(0 <= x <= 460 and 0 <= y <= 190 for x, y in line)


def test_a_larger_value_is_higher_and_a_later_one_to_the_right() -> None:
    ((first, second, *_),) = polylines(curves({"a": [(0, 0.1), (1, 0.2)]}, "epoch", "score"))
    assert first[0] < second[0]
    assert first[1] > second[1]


def test_texts_are_escaped() -> None:
    drawn = curves({"<u>": [(0, 1)], "v": [(1, 2)]}, "<x>", "&y")
    shown = "".join(parsed(page("<script>", table([{"<b>": "<i>", "x": 0.123456}]), drawn)).itertext())
    for text in ("<script>", "<b>", "<i>", "<u>", "<x>", "&y", "0.1235"):
        assert text in shown


def test_a_run_shows_its_metrics_and_curves(write_inter: Any) -> None:
    options = {**QUIET, **SMALL, **write_inter(ROWS), "epochs": 3}
    result = run(dataset=options.pop("dataset"), options=options)
    text = result._repr_html_()
    assert result.test_result is not None
    for value in result.test_result.values():
        assert f"{value:.4f}" in text
    assert "BERT4Rec on toy, seed 2020: 3 epochs" in text
    valid, loss = polylines(text)
    assert (len(valid), len(loss)) == (4, 4)  # the last point is drawn twice, to be seen where it is alone
    assert len(text) < 6000


def test_a_run_without_validation_shows_what_there_is(write_inter: Any) -> None:
    options = {**QUIET, **SMALL, **write_inter(ROWS), "epochs": 1, "eval_step": 0}
    text = run(dataset=options["dataset"], options=options)._repr_html_()
    assert len(polylines(text)) == 1
    options["epochs"] = 0
    assert "0 epochs, none validated, " in run(dataset=options["dataset"], options=options)._repr_html_()


def test_a_comparison_shows_means_and_a_curve_a_run() -> None:
    config = {"valid_metric": "MRR@10"}
    epochs = [{"at_second": 1.0 + n, "valid_score": 0.1 * n} for n in range(3)]
    records = {
        name: [{"dataset": "toy", "seed": seed, "config": config, "epochs": epochs} for seed in seeds]
        for name, seeds in {"A": (1, 2), "B": (1,)}.items()
    }
    runs = pd.DataFrame({"model": ["A", "A", "B"], "valid x": 1.0, "test ndcg@10": [0.1, 0.3, 0.5]})
    text = ComparisonResult(runs, {"page": Path("x")}, records)._repr_html_()
    assert "0.2000 ± 0.1414" in text
    assert "0.5000" in text
    assert "valid x" not in text
    assert len(polylines(text)) == 3


@pytest.mark.parametrize("bigger", [True, False])
def test_a_search_shows_its_best_trials_first(bigger: bool) -> None:
    trials = [Trial(n, {"mask_ratio": n / 10}, score=0.1 * n, valid={}, best_epoch=0) for n in range(1, 4)]
    failed = Trial(4, {"mask_ratio": 0.9}, FAILED, reason="no")
    text = SearchResult(trials[-1], {"mrr@10": 0.25}, [*trials, failed], {}, bigger)._repr_html_()
    numbers = [int(cell) for cell in re.findall(r"<td>(\d)</td>", text)]
    assert numbers == ([3, 2, 1] if bigger else [1, 2, 3])
    assert "0.2500" in text
