"""Findings of a comparison: the first model against each other one, the winner, and who was best at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.comparison.results import Results
from recbole_bert4rec.comparison.significance import Difference, difference, holm

LEVEL = 0.05
"""Differences with a higher p are not significant."""


@dataclass(frozen=True)
class Finding:
    """The first model minus a rival, in one metric.

    Attributes:
        metric: as RecBole names it.
        rival: the other model.
        is_best: whether it is the best of the rivals.
        difference: of the means, with its interval and p.
        p: corrected by Holm for the rivals of the metric.
    """

    metric: str
    rival: str
    is_best: bool
    difference: Difference
    p: float

    @property
    def is_sure(self) -> bool:
        """Whether the difference is significant."""
        return self.p < LEVEL


def find(results: Results) -> list[Finding]:
    """Compare the first model with each other one, in each metric that does not repeat another."""
    first = results.reference
    if first is None:
        return []
    findings = []
    for metric in distinct_metrics(results.metrics):
        best = results.best_rival(metric)
        for rival, (gap, p) in against(results, first, metric).items():
            findings.append(Finding(metric, rival, rival == best, gap, p))
    return findings


def against(results: Results, model: str, metric: str) -> dict[str, tuple[Difference, float]]:
    """Compare a model with each other one in one metric, by the seeds that both have if these are two or more."""
    rivals = [rival for rival in results.models if rival != model]
    gaps = [difference(*_same_seeds(results, model, rival, metric)) for rival in rivals]
    return dict(zip(rivals, zip(gaps, holm([gap.p for gap in gaps]), strict=True), strict=True))


def _same_seeds(
    results: Results, model: str, rival: str, metric: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the metric of every user in the runs of two models that share a seed.

    *Shape:* (S, U) each; all runs of both if fewer than two seeds are the same.
    """
    seeds, others = ([record["seed"] for record in results.records[name]] for name in (model, rival))
    ours, theirs = results.by_user(model, metric), results.by_user(rival, metric)
    same = set(seeds) & set(others)
    if len(same) < 2:
        return ours, theirs
    return ours[[seed in same for seed in seeds]], theirs[[seed in same for seed in others]]


def distinct_metrics(metrics: list[str]) -> dict[str, list[str]]:
    """Group metrics that say the same if a ranking has one target.

    Recall is hit, map is mrr, precision@K is hit@K / K; at 1 all of them are equal.
    """
    first_of: dict[tuple[str, str], str] = {}
    groups: dict[str, list[str]] = {}
    for metric in metrics:
        name, _, cut = metric.partition("@")
        kind = "hit" if cut == "1" else {"recall": "hit", "precision": "hit", "map": "mrr"}.get(name, name)
        first = first_of.setdefault((kind, cut), metric)
        groups.setdefault(first, []).append(metric)
    return {first: equal[1:] for first, equal in groups.items()}


def headline(results: Results, findings: list[Finding]) -> str:
    """Say which model is ahead, by how much, and how sure that is."""
    metric = results.main_metric
    finding = next((rival for rival in findings if rival.metric == metric and rival.is_best), None)
    if finding is None or results.reference is None:
        means = {model: float(results.scores(model, metric).mean()) for model in results.models}
        best = max(means, key=lambda model: means[model])
        return f"{best}: test {metric} {means[best]:.4f}."
    gap, ahead, behind = finding.difference, results.reference, finding.rival
    low, high = gap.low, gap.high
    if gap.mean < 0:
        ahead, behind, low, high = behind, ahead, -high, -low
    of = float(results.by_user(behind, metric).mean())
    relative = f" ({abs(gap.mean) / of:.0%})" if of else ""
    if len(results.models) > 2:
        behind = f"{behind}, the best of the others," if gap.mean >= 0 else behind
    p = f"p {p_text(finding.p)}" + (" after Holm's correction" if len(results.models) > 2 else "")
    sure = f"{'' if finding.is_sure else 'not '}significant at {LEVEL:.0%}"
    seeds = min(len(records) for records in results.records.values())
    unknown = " One seed each: how much seeds differ is not known." if seeds == 1 else ""
    return (
        f"{ahead} is ahead of {behind} by {abs(gap.mean):.4f} test {metric}{relative}; "
        f"95 % interval {low:+.4f} to {high:+.4f}, {p}: {sure}.{unknown}"
    )


def p_text(value: float) -> str:
    """Format a p for tables."""
    return "< .0001" if value < 1e-4 else f"{value:.4f}"


def best_at_the_end(results: Results) -> list[str]:
    """Return the models with a run whose last validated epoch was its best: a longer training may be better."""

    def is_late(record: dict[str, Any]) -> bool:
        validated = [row["epoch"] for row in record["epochs"] if row.get("valid")]
        return len(validated) > 1 and bool(record["best_epoch"] == validated[-1])

    return [model for model in results.models if any(map(is_late, results.records[model]))]
