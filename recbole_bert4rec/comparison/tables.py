"""The tables of a comparison."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from recbole_bert4rec.comparison.findings import Finding, distinct_metrics, p_text
from recbole_bert4rec.comparison.results import Results, epochs_trained, mean_text


@dataclass(frozen=True)
class Cell:
    """A text of a table.

    Attributes:
        text: a word or a number.
        rank: 1 if it is the best of its group, 2 the second, and so on; 0 without an order.
        differs: whether it differs significantly from the first model.
    """

    text: str
    rank: int = 0
    differs: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header.

    Attributes:
        header: names of the columns.
        rows: cells of each row.
        texts: how many columns from the left hold words; the others hold numbers.
    """

    header: list[str]
    rows: list[list[Cell]]
    texts: int = 1


def cells(*texts: str) -> list[Cell]:
    """Return plain cells."""
    return [Cell(text) for text in texts]


def ranks(values: list[float]) -> list[int]:
    """Return the rank of each value: 1 for the highest; equal values share a rank."""
    distinct = sorted(set(values), reverse=True)
    return [distinct.index(value) + 1 for value in values]


def scores(results: Results, findings: list[Finding]) -> Table:
    """Return mean and standard deviation over seeds, models by metrics."""
    sure = {(finding.rival, finding.metric) for finding in findings if finding.is_sure}
    return _means(results, results.metrics, lambda record: record["test_result"], sure)


def also_tested(results: Results, protocol: str) -> Table:
    """Return means and standard deviations of the same weights under a further protocol."""
    metrics = list(results.records[results.models[0]][0]["also"][protocol])
    return _means(results, metrics, partial(_tested_under, protocol))


def _tested_under(protocol: str, record: dict[str, Any]) -> dict[str, float]:
    metrics: dict[str, float] = record["also"][protocol]
    return metrics


def _means(
    results: Results,
    metrics: list[str],
    result: Callable[[dict[str, Any]], dict[str, float]],
    sure: Collection[tuple[str, str]] = (),
) -> Table:
    rows = [cells(model, str(len(results.records[model]))) for model in results.models]
    kept = list(distinct_metrics(metrics))
    for metric in kept:
        runs = [[result(record)[metric] for record in results.records[model]] for model in results.models]
        order = ranks([statistics.mean(of_model) for of_model in runs])
        for model, row, of_model, rank in zip(results.models, rows, runs, order, strict=True):
            rank = rank if len(runs) > 1 else 0
            row.append(Cell(mean_text(of_model), rank, differs=(model, metric) in sure))
    return Table(["model", "seeds", *kept], rows)


def differences(results: Results, findings: list[Finding]) -> Table:
    """Return the first model against each other one: difference, interval, p, and p corrected by Holm."""
    rows = []
    for finding in findings:
        best = " (best rival)" if finding.is_best else ""
        interval = f"{finding.difference.low:+.4f} to {finding.difference.high:+.4f}"
        named = f"{results.reference} − {finding.rival}{best}"
        figures = (f"{finding.difference.mean:+.4f}", interval, p_text(finding.difference.p), p_text(finding.p))
        rows.append(cells(finding.metric, named, *figures))
    return Table(["metric", "difference", "mean", "95 % interval", "p", "p (Holm)"], rows, texts=2)


def costs(results: Results) -> Table:
    """Return the cost of each model's runs, in the median over seeds."""

    def median(model: str, value: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(value(record) for record in results.records[model])

    rows = []
    for model in results.models:
        epochs = median(model, epochs_trained)
        best = median(model, lambda record: float(record["best_epoch"]))
        train = median(model, lambda record: sum(row["train_seconds"] for row in record["epochs"]))
        rows.append(
            cells(
                model,
                f"{epochs:.2f}" if epochs % 1 else f"{epochs:.0f}",
                f"{best:.0f}",
                f"{median(model, lambda record: record['seconds']['train']):.1f}",
                f"{train:.1f}",
                f"{median(model, lambda record: record['peak_memory_mb']):,.0f}",
                f"{median(model, lambda record: record['parameters']):,.0f}",
            )
        )
    header = ["model", "epochs", "best epoch (from 0)", "seconds", "of which training"]
    return Table([*header, "peak memory, MB", "parameters"], rows)
