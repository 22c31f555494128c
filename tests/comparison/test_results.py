"""What the reports compute from ranks: RecBole's metrics, and marks in tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from recbole.evaluator import metrics as recbole_metrics

from recbole_bert4rec.comparison.findings import distinct_metrics
from recbole_bert4rec.comparison.render import escape_markdown, escape_tex
from recbole_bert4rec.comparison.results import metric_of
from recbole_bert4rec.comparison.tables import ranks
from tests.helpers.runs import make_config


@pytest.mark.parametrize("name", ["Hit", "Recall", "Precision", "MRR", "NDCG", "MAP"])
def test_metrics_of_ranks_equal_recboles(name: str) -> None:
    make_config()  # makes RecBole's metrics bear NumPy 1.24 and later
    ranks = np.array([1, 2, 3, 10, 11, 0, 5, 7, 1, 0])
    columns = np.arange(1, 21)
    hits = torch.from_numpy((ranks[:, None] == columns).astype(np.int64))
    table = torch.cat([hits, torch.ones(len(ranks), 1, dtype=torch.int64)], dim=1)
    settings: Any = {"topk": [1, 3, 10, 20], "metric_decimal_place": 12}
    metric = getattr(recbole_metrics, name)(settings)
    for key, value in metric.calculate_metric(SimpleNamespace(get=lambda _: table)).items():
        assert metric_of(ranks, key).mean() == pytest.approx(value, abs=1e-12)


def test_the_best_and_the_second_are_marked_and_ties_alike() -> None:
    assert ranks([0.1, 0.3, 0.3, 0.2]) == [3, 1, 1, 2]


def test_a_variant_may_be_named_with_characters_of_tex_and_html() -> None:
    assert escape_markdown("a & b") == "a &amp; b"
    assert escape_tex(r"N^2 #1 {a}_b \c ~ 5 % & $") == (
        r"N\textasciicircum{}2 \#1 \{a\}\_b \textbackslash{}c \textasciitilde{} 5 \% \& \$"
    )


def test_metrics_that_say_the_same_are_shown_once() -> None:
    metrics = ["recall@10", "mrr@10", "hit@10", "precision@10", "recall@5", "ndcg@1", "map@10", "mrr@1"]
    assert distinct_metrics(metrics) == {
        "recall@10": ["hit@10", "precision@10"],
        "mrr@10": ["map@10"],
        "recall@5": [],
        "ndcg@1": ["mrr@1"],
    }
