"""Findings of a comparison: the first model against each other one, the winner, and the reservations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from recbole.utils import ModelType, get_model

from recbole_bert4rec.comparison.results import Results, epochs_trained
from recbole_bert4rec.comparison.significance import Difference, difference, holm
from recbole_bert4rec.options.user_models import class_of, is_ours
from recbole_bert4rec.plugin.user_rows import CAUSAL_MODELS, WindowModel
from recbole_bert4rec.training.epochs import counted

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
    """Compare a model with each other one in one metric, by the seeds that both have if these are two or more.

    Returns:
        For each rival, the model minus the rival, and p corrected by Holm for the rivals.
    """
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

    Returns:
        The first of each group, and the others of it.
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
        f"95 % interval {low:+.4f} to {high:+.4f}, {p}: {sure}.{unknown}{_reservations(results, finding.rival)}"
    )


def _reservations(results: Results, rival: str) -> str:
    """Name the reservations about the two models that the headline compares."""
    reservations = [
        f"{' and '.join(model for model in (results.reference, rival) if model in models)}: {text}"
        for text, models in doubts(results).items()
        if {results.reference, rival} & {*models}
    ]
    return f" But {'; '.join(reservations)}." if reservations else ""


def p_text(value: float) -> str:
    """Format a p for tables."""
    return "< .0001" if value < 1e-4 else f"{value:.4f}"


def doubts(results: Results) -> dict[str, list[str]]:
    """Return the reasons why figures may be too low, each with its models."""
    doubted: dict[str, list[str]] = {}
    for model in results.models:
        records = results.records[model]
        share = min(map(epochs_trained, records))
        if share < 1:
            doubted.setdefault(f"trained for {share:.0%} of one epoch only", []).append(model)
            continue
        at_the_end, cut_off = ([*filter(test, records)] for test in (_was_best_at_the_end, _was_cut_off))
        if at_the_end or cut_off:
            count, ending = len(at_the_end), "were best at their last epoch"
            if len(cut_off) > count:
                count, ending = len(cut_off), f"were ended by the limit of {_limit(cut_off[0])}"
            text = f"{count} of {len(records)} runs {ending}: a longer training may be better"
            doubted.setdefault(text, []).append(model)
    return doubted


def ended_by(record: dict[str, Any]) -> str:
    """Name the end of a training: ``limit`` of epochs, ``budget`` or ``early stopping``."""
    if len(record["epochs"]) >= record["config"]["epochs"] and epochs_trained(record) == len(record["epochs"]):
        return "limit"
    if not record.get("budget"):
        return "early stopping"
    worse = sum(epoch["epoch"] > record["best_epoch"] for epoch in record["epochs"] if epoch.get("valid"))
    return "early stopping" if worse > record["config"]["stopping_step"] else "budget"


def _was_cut_off(record: dict[str, Any]) -> bool:
    """Whether a limit ended an unfinished training; with this package's falling learning rate it never does."""
    falls = is_ours(record["model"]) and record["config"].get("lr_schedule") != "constant"
    return ended_by(record) != "early stopping" and not falls


def _limit(record: dict[str, Any]) -> str:
    if ended_by(record) == "budget":
        return f"{record['budget']['seconds']:g} s"
    return counted(record["config"]["epochs"])


def _was_best_at_the_end(record: dict[str, Any]) -> bool:
    validated = [row["epoch"] for row in record["epochs"] if row.get("valid")]
    return len(validated) > 1 and bool(record["best_epoch"] == validated[-1])


def type_of(model: str) -> ModelType:
    """Return RecBole's type of a model, by its name."""
    kind: ModelType = _class_named(model).type
    return kind


def _class_named(model: str) -> Any:
    """Return a model's class by its name."""
    return class_of(model) or get_model(model)


def shown_in_an_epoch(record: dict[str, Any]) -> str:
    """Say what a model is shown in one epoch: epochs of different models cannot be compared by their number."""
    config = record["config"]
    if is_ours(record["model"]):
        return "sliding windows of each user" if config.get("window") == "sliding" else "a window of each user"
    model_class = _class_named(record["model"])
    if issubclass(model_class, WindowModel) or (config.get("training_rows") and record["model"] in CAUSAL_MODELS):
        return "all windows of each user (training_rows: user)"
    return "a padded row a label" if model_class.type == ModelType.SEQUENTIAL else "each interaction"
