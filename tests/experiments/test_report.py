"""Reports: RecBole's metrics from ranks, marks under every protocol, hostile names harmless in Markdown and LaTeX."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from recbole.evaluator import metrics as recbole_metrics

from recbole_bert4rec.experiments.report import write_report
from recbole_bert4rec.experiments.results import distinct_metrics, metric_of, read_results
from tests.helpers.runs import make_config

TAG = "<img src=x onerror=alert(1)>"
USERS = [f"u{number}" for number in range(12)]
RANKS = np.arange(12) % 7
METRICS = ("ndcg@5", "hit@5")
Folder = Callable[..., Path]


def metrics_of(ranks: NDArray[np.int64], names: Iterable[str] = METRICS) -> dict[str, float]:
    return {name: round(float(metric_of(ranks, name).mean()), 4) for name in names}


@pytest.fixture
def make_folder(tmp_path: Path) -> Folder:
    """Write the folder of a finished comparison of variants, two runs each, as a comparison does."""

    def write(
        variants: dict[str, dict[str, Any]],
        ranks: dict[str, dict[str, NDArray[np.int64]]] | None = None,
        names: Iterable[str] = METRICS,
        **changes: Any,
    ) -> Path:
        """``ranks`` are those of each protocol and model; without, all models have the same."""
        folder = tmp_path / "compared"
        (folder / "runs").mkdir(parents=True)
        ranks = ranks or {"": dict.fromkeys(variants, RANKS)}
        runs: dict[str, list[str]] = {}
        for number, model in enumerate(variants):
            for seed in (1, 2):
                name = f"run{number}-{seed}"
                runs.setdefault(model, []).append(name)
                tested = {protocol: metrics_of(of_models[model], names) for protocol, of_models in ranks.items()}
                record = {
                    "model": "BERT4Rec",
                    "seed": seed,
                    "seconds": {"load": 0.1, "train": 1.5, "total": 2.0},
                    "peak_memory_mb": 10.0,
                    "parameters": 1000,
                    "best_epoch": 0,
                    "epochs": [{"epoch": 0, "train_seconds": 1.0, "at_second": 1.5, "valid": tested[""]}],
                    "best_valid_result": tested[""],
                    "test_result": tested.pop(""),
                    "also": tested,
                    "machine": {"processor": TAG, "cores": 2, "threads": 1, "gpu": None},
                    "versions": {"torch": "2"},
                }
                (folder / "runs" / f"{name}.json").write_text(json.dumps(record))
                parts = [
                    pd.DataFrame({"protocol": protocol, "user": USERS, "target": "i", "rank": of_models[model]})
                    for protocol, of_models in ranks.items()
                ]
                shuffled = [part.sample(frac=1.0, random_state=seed) for part in parts]
                pd.concat(shuffled).to_parquet(folder / "runs" / f"{name}.parquet")
        eval_args = {"split": {"LS": "valid_and_test"}, "mode": {"valid": "full", "test": "full"}}
        about = {
            "models": list(variants),
            "variants": variants,
            "varied": None,
            "axis": None,
            "dataset": "toy",
            "seeds": [1, 2],
            "budget": None,
            "parts": "",
            "command": f"python run.py `{TAG}` ``",
            "dropped": 0,
            "users": 12,
            "items": 9,
            "interactions": 99,
            "rules": {"eval_args": eval_args, "exclude_seen": False, "valid_metric": "NDCG@5"},
            "runs": runs,
            "failed": {},
            **changes,
        }
        (folder / "comparison.json").write_text(json.dumps(about))
        return folder

    return write


def report_on(folder: Path) -> dict[str, str]:
    """Return the texts of a report, without the blanks that align a table."""
    written = write_report(folder, read_results(folder))
    return {kind: re.sub(" +", " ", path.read_text("utf-8")) for kind, path in written.items()}


def test_equal_models_of_hostile_names_are_told_as_equal_and_as_text_in_every_format(make_folder: Folder) -> None:
    note = "a\n\\input{/etc/passwd}\r\\input{b}\u2028\\input{c}\x0b\\input{d}"
    name = f"{TAG} | [x](javascript:alert(1)) *y*\n\n# z & b"
    variants = {"plain": {"note": note}, "x\n\\input{e} N^2 #1 a_b ~ 5 % & $": {}, name: {"note": TAG}, "=1+1": {}}
    failed = {"run9": f"it broke\n\\input{{g}} {TAG}"}
    texts = report_on(make_folder(variants, dataset=f"toy {TAG}\n\\input{{f}}", failed=failed))
    lines = texts["LaTeX"].splitlines()
    comments = [line for line in lines if line.startswith("%")]
    assert sum(line.count(r"\input") for line in comments) == 7
    assert not [line for line in lines if r"\input" in line and not line.startswith("%")]
    in_tex = r"x \textbackslash{}input\{e\} N\textasciicircum{}2 \#1 a\_b \textasciitilde{} 5 \% \& \$"
    assert any(line.startswith(f"{in_tex} & 2 & ") for line in lines)
    assert r"\label{tab:toy-img-src-x-onerror-alert-1-input-f}" in lines
    command = f"\n\n python run.py `{TAG}` ``\n\n"  # a block of code
    assert command in texts["Markdown"]
    markdown = texts["Markdown"].replace(command, "").replace("<u>", "").replace("</u>", "")
    assert "<" not in markdown
    assert "&lt;img src=x onerror=alert(1)&gt; \\| \\[x\\](javascript:alert(1)) \\*y\\* # z &amp; b" in markdown
    assert markdown.count("\n# ") == 0
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {5, 7, 8}
    assert texts["runs"].count("\n'=1+1,") == 2, "no formula for a spreadsheet"
    assert "p 1.0000" in markdown
    assert "**\\*" not in markdown, "none has a star"


@pytest.mark.parametrize(("deepest", "is_shown"), [(5, False), (6, True)])
def test_hits_and_ndcg_among_all_candidates_are_left_out(make_folder: Folder, deepest: int, is_shown: bool) -> None:
    names = ("ndcg@3", "hit@5", "ndcg@5", "mrr@5")
    ranks = dict.fromkeys("ab", np.arange(12) % deepest + 1)
    rules = {"eval_args": {"split": {"LS": "valid_and_test"}, "mode": {"valid": "pop4", "test": "pop4"}}}
    variants: dict[str, Any] = {"a": {}, "b": {}}
    folder = make_folder(variants, {"": ranks, "few": ranks}, names, rules={**rules, "valid_metric": "NDCG@3"})
    texts = report_on(folder)
    markdown = texts["Markdown"][texts["Markdown"].index("| model") :]
    for text in markdown, texts["LaTeX"]:
        assert ("hit@5" in text) == ("ndcg@5" in text) == is_shown
        assert text.count("mrr@5") >= 2, "the paper's MRR, under both protocols"
    assert "test hit@5" in texts["runs"]


def test_every_protocol_has_its_table_with_the_same_figures_and_marks_in_both_formats(make_folder: Folder) -> None:
    worse, better = np.full(12, 4), np.arange(12) % 2 + 1
    ranks = {"": {"a": worse, "b": better}, "paper.yaml": {"a": better, "b": worse}, "z.yaml": {"a": RANKS, "b": RANKS}}
    texts = report_on(make_folder({"a": {}, "b": {}}, ranks, names=["ndcg@5"]))
    good, bad = (f"{metric_of(own, 'ndcg@5').mean():.4f} ± 0.0000" for own in (better, worse))
    same = f"{metric_of(RANKS, 'ndcg@5').mean():.4f} ± 0.0000"
    expected = [
        [("a", "<u>{}</u>", bad), ("b", "**{}**\\*", good)],
        [("a", "**{}**", good), ("b", "<u>{}</u>\\*", bad)],
        [("a", "**{}**", same), ("b", "**{}**", same)],
    ]
    tables = texts["Markdown"][: texts["Markdown"].index("## Differences")].split("| model |")[1:]
    latex = texts["LaTeX"].split(r"\begin{table}")[1:]
    assert "## The same weights under paper.yaml" in texts["Markdown"]
    for rows, of_markdown, of_latex in zip(expected, tables, latex, strict=True):
        assert r"\begin{tabular}{llr}" in of_latex
        for model, form, figures in rows:
            cell = form.format(figures)
            assert f"| {model} | 2 | {cell} |" in of_markdown
            for mark, command in (("**", r"\textbf{"), ("<u>", r"\underline{")):
                cell = cell.replace(mark, command, 1).replace(mark.replace("<", "</"), "}", 1)
            tex = cell.replace(r"\*", "$^{*}$").replace("±", r"$\pm$")
            assert f"{model} & 2 & {tex} \\\\\n" in of_latex
    assert len({*re.findall(r"\\label{.*}", texts["LaTeX"])}) == 3
    assert "b is ahead of a by" in texts["Markdown"]


def test_a_report_on_the_rivals_of_a_model_that_failed_says_why_and_compares_nothing(make_folder: Folder) -> None:
    runs = {"a": [], "b": ["run1-1"], "c": ["run2-1", "run2-2"]}
    variants: dict[str, dict[str, Any]] = {"a": {}, "b": {}, "c": {}}
    results = read_results(make_folder(variants, runs=runs, failed={"a, seed 1": "no memory"}))
    assert [record["seed"] for runs in results.records.values() for record in runs] == [1, 1, 2]
    assert results.by_user("b", "hit@5").shape == (1, 12)
    text = write_report(Path("compared"), results)["Markdown"].read_text("utf-8")
    assert "Failed: a, seed 1: no memory" in text
    assert "## Differences" not in text, "the model that is compared with the others is missing"


@pytest.mark.parametrize("count", [1, 9])
def test_pictures_are_drawn_of_any_number_of_models_and_along_an_axis(make_folder: Folder, count: int) -> None:
    variants = {f"${number}": {"size": number % 8} for number in range(count)}
    axis = {model: options["size"] for model, options in variants.items()}
    folder = make_folder(variants, varied="size", axis=axis)
    text = report_on(folder)["Markdown"]
    names = {"what-is-varied", "learning-curves", *(["differences"] if count > 1 else [])}
    assert {path.stem for path in folder.glob("*.png")} == names == {*re.findall(r"\((.*).png\)", text)}
    assert list(pd.read_csv(folder / "runs.csv")["varied"]) == [value for value in axis.values() for _ in range(2)]


def test_metrics_of_ranks_equal_recboles() -> None:
    make_config()  # makes RecBole's metrics bear NumPy 1.24 and later
    places = np.array([1, 2, 3, 10, 11, 0, 5, 7, 1, 0])
    hits = torch.from_numpy((places[:, None] == np.arange(1, 21)).astype(np.int64))
    table = torch.cat([hits, torch.ones(len(places), 1, dtype=torch.int64)], dim=1)
    settings: Any = {"topk": [1, 3, 10, 20], "metric_decimal_place": 12}
    for name in ("Hit", "Recall", "Precision", "MRR", "NDCG", "MAP"):
        metric = getattr(recbole_metrics, name)(settings)
        for key, value in metric.calculate_metric(SimpleNamespace(get=lambda _: table)).items():
            assert metric_of(places, key).mean() == pytest.approx(value, abs=1e-12)


def test_metrics_that_say_the_same_are_shown_once() -> None:
    metrics = ["recall@10", "mrr@10", "hit@10", "precision@10", "recall@5", "ndcg@1", "map@10", "mrr@1"]
    assert distinct_metrics(metrics) == ["recall@10", "mrr@10", "recall@5", "ndcg@1"]
