"""Reports: RecBole's metrics from ranks, hostile names harmless in Markdown and LaTeX, a damaged run made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.evaluator import metrics as recbole_metrics

from recbole_bert4rec.comparison.compare import _finished
from recbole_bert4rec.comparison.findings import distinct_metrics
from recbole_bert4rec.comparison.report import write_comparison
from recbole_bert4rec.comparison.results import metric_of, read_results
from recbole_bert4rec.comparison.tables import ranks
from tests.helpers.runs import make_config

TAG = "<img src=x onerror=alert(1)>"
USERS = [f"u{number}" for number in range(12)]
RANKS = np.arange(12) % 7


def record_of(model: str, seed: int, **changes: Any) -> dict[str, Any]:
    metrics = {metric: round(float(metric_of(RANKS, metric).mean()), 4) for metric in ("ndcg@5", "hit@5")}
    epoch = {"epoch": 0, "train_seconds": 1.0, "at_second": 1.5, "train_loss": 2.0, "valid": metrics}
    return {
        "model": "BERT4Rec",
        "contestant": model,
        "seed": seed,
        "seconds": {"load": 0.1, "train": 1.5, "total": 2.0},
        "peak_memory_mb": 10.0,
        "parameters": 1000,
        "best_epoch": 0,
        "best_valid_result": metrics,
        "test_result": metrics,
        "epochs": [epoch],
        "machine": {"processor": TAG, "cores": 2, "threads": 1, "gpu": None},
        "versions": {"torch": "2"},
        "config": {"epochs": 9, "stopping_step": 2},
        **changes,
    }


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    """Write the folder of a finished comparison of two variants, as :func:`compare` does."""

    def write(variants: dict[str, dict[str, Any]], dataset: str = "toy") -> Path:
        folder = tmp_path / "compared"
        (folder / "runs").mkdir(parents=True)
        runs = []
        for number, model in enumerate(variants):
            for seed in (1, 2):
                runs.append(f"run{number}-{seed}")
                record = record_of(model, seed)
                (folder / "runs" / f"{runs[-1]}.json").write_text(json.dumps(record))
                pd.DataFrame({"user": USERS, "target": "i", "rank": RANKS}).to_parquet(
                    folder / "runs" / f"{runs[-1]}.parquet"
                )
        rules = {
            "eval_args": {"split": {"LS": "valid_and_test"}, "mode": {"valid": "full", "test": "full"}},
            "exclude_seen": False,
        }
        about = {
            "models": list(variants),
            "variants": variants,
            "varied": None,
            "axis": None,
            "dataset": dataset,
            "seeds": [1, 2],
            "budget": None,
            "command": f"python run.py `{TAG}` ``",
            "dropped": 0,
            "users": 12,
            "items": 9,
            "interactions": 99,
            "rules": {**rules, "valid_metric": "NDCG@5"},
            "runs": runs,
        }
        (folder / "comparison.json").write_text(json.dumps(about))
        pd.DataFrame({"user": USERS}).to_parquet(folder / "rows.parquet")
        return folder

    return write


def report_on(folder: Path, failed: dict[str, str] | None = None) -> dict[str, str]:
    runs = json.loads((folder / "comparison.json").read_text())["runs"]
    written = write_comparison(folder, read_results(folder, runs, failed or {}))
    return {what: path.read_text("utf-8") for what, path in written.items()}


def test_no_line_of_an_option_or_a_reason_leaves_the_comments_of_the_table(make_folder: Callable[..., Path]) -> None:
    note = "a\n\\input{/etc/passwd}\r\\input{b}\u2028\\input{c}\x0b\\input{d}"
    folder = make_folder({"plain": {"note": note}, "x\n\\input{e} N^2 #1 a_b ~ 5 % & $": {}}, dataset="toy\n\\input{f}")
    table = report_on(folder, {"run9": "it broke\n\\input{g}"})["LaTeX"]
    lines = table.splitlines()
    comments = [line for line in lines if line.startswith("%")]
    assert sum(line.count(r"\input") for line in comments) == 7
    assert not [line for line in lines if r"\input" in line and not line.startswith("%")]
    name = r"x \textbackslash{}input\{e\} N\textasciicircum{}2 \#1 a\_b \textasciitilde{} 5 \% \& \$"
    assert any(line.startswith(f"{name} & 2 & ") for line in lines)
    assert r"\label{tab:toy-input-f}" in lines


def test_raw_tags_links_and_columns_are_text_in_markdown(make_folder: Callable[..., Path]) -> None:
    name = f"{TAG} | [x](javascript:alert(1)) *y*\n\n# z & b"
    texts = report_on(make_folder({name: {"note": TAG}, "b": {}}, dataset=TAG), {"run9": TAG})
    command = f"``` python run.py `{TAG}` `` ```"
    assert command in texts["Markdown"]
    markdown = texts["Markdown"].replace(command, "")
    for tag in ("<u>", "</u>"):
        markdown = markdown.replace(tag, "")
    assert "<" not in markdown
    assert "&lt;img src=x onerror=alert(1)&gt; \\| \\[x\\](javascript:alert(1)) \\*y\\* # z &amp; b" in markdown
    assert markdown.count("\n# ") == 0
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {5, 7, 8}


def test_hits_among_all_candidates_are_left_out_since_they_are_sure(make_folder: Callable[..., Path]) -> None:
    folder = make_folder({"a": {}, "b": {}})
    for mode, is_shown in (("pop4", False), ("pop5", True)):
        about = json.loads((folder / "comparison.json").read_text())
        about["rules"]["eval_args"]["mode"] = {"valid": mode, "test": mode}
        (folder / "comparison.json").write_text(json.dumps(about))
        texts = report_on(folder)
        for text in texts["Markdown"], texts["LaTeX"]:
            assert "ndcg@5" in text
            assert ("hit@5" in text) == is_shown


def test_both_formats_show_the_same_figures_and_mark_the_same_best(make_folder: Callable[..., Path]) -> None:
    folder = make_folder({"a": {}, "b": {}})
    better = record_of("b", 1)
    better["test_result"] = {"ndcg@5": 1.0, "hit@5": 1.0}
    for seed in (1, 2):
        (folder / "runs" / f"run1-{seed}.json").write_text(json.dumps({**better, "seed": seed}))
        pd.DataFrame({"user": USERS, "target": "i", "rank": 1}).to_parquet(folder / "runs" / f"run1-{seed}.parquet")
    texts = report_on(folder)
    hit = f"{metric_of(RANKS, 'hit@5').mean():.4f}"
    assert f"<u>{hit} ± 0.0000</u> |" in texts["Markdown"]
    assert "| **1.0000 ± 0.0000**\\* |" in texts["Markdown"]
    assert f"\\underline{{{hit} $\\pm$ 0.0000}} \\\\" in texts["LaTeX"]
    assert r"\textbf{1.0000 $\pm$ 0.0000}$^{*}$ & " in texts["LaTeX"]
    assert r"\begin{tabular}{llrr}" in texts["LaTeX"]


def test_equal_models_have_a_p_of_1_and_no_star(make_folder: Callable[..., Path]) -> None:
    text = report_on(make_folder({"a": {}, "b": {}, "c": {}}))["Markdown"]
    assert "p 1.0000" in text
    assert "\\*" not in text[text.index("| model |") : text.index("Test metrics")]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "half a record": lambda path: path.write_text(path.read_text()[:300]),
    "half the ranks": lambda path: (cut := path.with_suffix(".parquet")).write_bytes(cut.read_bytes()[:400]),
    "other columns": lambda path: pd.DataFrame({"a": [1]}).to_parquet(path.with_suffix(".parquet")),
    "other users": lambda path: pd.DataFrame({"user": ["x"], "rank": 1}).to_parquet(path.with_suffix(".parquet")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_run_again_as_one_that_never_ended(damage: str, make_folder: Callable[..., Path]) -> None:
    runs, users = make_folder({"a": {}, "b": {}}) / "runs", pd.Series(USERS)
    assert _finished(runs, "run0-1", users) == record_of("a", 1)
    DAMAGES[damage](runs / "run0-1.json")
    assert _finished(runs, "run0-1", users) is None
    assert _finished(runs, "other", users) is None


def test_a_report_has_a_table_for_each_further_protocol(make_folder: Callable[..., Path]) -> None:
    folder = make_folder({"a": {}, "b": {}})
    for number, value in enumerate((0.1, 0.3, 0.2, 0.2)):
        file = sorted((folder / "runs").glob("*.json"))[number]
        record = json.loads(file.read_text())
        file.write_text(json.dumps({**record, "also": {"paper.yaml": {"hit@9": value}}}))
    text = report_on(folder)["Markdown"]
    part = text[text.index("## The same models under paper.yaml") :]
    assert "| model | seeds | hit@9 |" in part
    assert "| a | 2 | **0.2000 ± 0.1414** |" in part
    assert "| b | 2 | **0.2000 ± 0.0000** |" in part


@pytest.mark.parametrize("name", ["Hit", "Recall", "Precision", "MRR", "NDCG", "MAP"])
def test_metrics_of_ranks_equal_recboles(name: str) -> None:
    make_config()  # makes RecBole's metrics bear NumPy 1.24 and later
    places = np.array([1, 2, 3, 10, 11, 0, 5, 7, 1, 0])
    hits = torch.from_numpy((places[:, None] == np.arange(1, 21)).astype(np.int64))
    table = torch.cat([hits, torch.ones(len(places), 1, dtype=torch.int64)], dim=1)
    settings: Any = {"topk": [1, 3, 10, 20], "metric_decimal_place": 12}
    metric = getattr(recbole_metrics, name)(settings)
    for key, value in metric.calculate_metric(SimpleNamespace(get=lambda _: table)).items():
        assert metric_of(places, key).mean() == pytest.approx(value, abs=1e-12)


def test_the_best_and_the_second_are_marked_and_ties_alike() -> None:
    assert ranks([0.1, 0.3, 0.3, 0.2]) == [3, 1, 1, 2]


def test_metrics_that_say_the_same_are_shown_once() -> None:
    metrics = ["recall@10", "mrr@10", "hit@10", "precision@10", "recall@5", "ndcg@1", "map@10", "mrr@1"]
    assert distinct_metrics(metrics) == {
        "recall@10": ["hit@10", "precision@10"],
        "mrr@10": ["map@10"],
        "recall@5": [],
        "ndcg@1": ["mrr@1"],
    }
