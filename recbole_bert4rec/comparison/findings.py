"""What a comparison found: the first model against each other one, who is ahead, and what to doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from recbole.utils import ModelType, get_model

from recbole_bert4rec.comparison.results import Results, epochs_trained
from recbole_bert4rec.comparison.significance import Difference, difference, holm
from recbole_bert4rec.options.user_models import class_of, is_ours, parent_of
from recbole_bert4rec.plugin.user_rows import CAUSAL_MODELS
from recbole_bert4rec.system.constants import RIVAL
from recbole_bert4rec.training.epochs import counted

LEVEL = 0.05
"""Chance is taken to explain differences of a higher p."""


@dataclass(frozen=True)
class Finding:
    """The first model less a rival, in one metric.

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
        """Whether chance does not explain it."""
        return self.p < LEVEL


def find(results: Results) -> list[Finding]:
    """Compare the first model with each other one, in each metric that says something of its own."""
    first = results.reference
    if first is None:
        return []
    found = []
    for metric in distinct_metrics(results.metrics):
        best = results.best_rival(metric)
        for rival, (one, p) in against(results, first, metric).items():
            found.append(Finding(metric, rival, rival == best, one, p))
    return found


def against(results: Results, model: str, metric: str) -> dict[str, tuple[Difference, float]]:
    """Compare a model with each other one in one metric, by the seeds that both have where these are two or more.

    Returns:
        By rival the model less it, and p corrected by Holm for the rivals.
    """
    rivals = [rival for rival in results.models if rival != model]
    found = [difference(*_same_seeds(results, model, rival, metric)) for rival in rivals]
    return dict(zip(rivals, zip(found, holm([one.p for one in found]), strict=True), strict=True))


def _same_seeds(
    results: Results, model: str, rival: str, metric: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the metric of every user in the runs of two models, as far as both have these seeds.

    *Shape:* (S, U) each; all runs of both where fewer than two seeds are the same.
    """
    seeds, others = ([record["seed"] for record in results.records[name]] for name in (model, rival))
    ours, theirs = results.by_user(model, metric), results.by_user(rival, metric)
    same = set(seeds) & set(others)
    if len(same) < 2:
        return ours, theirs
    return ours[[seed in same for seed in seeds]], theirs[[seed in same for seed in others]]


def distinct_metrics(metrics: list[str]) -> dict[str, list[str]]:
    """Group metrics that say the same where a ranking has one target.

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
    """Say who is ahead by how much, and how sure that is."""
    metric = results.main_metric
    among = next((one for one in findings if one.metric == metric and one.is_best), None)
    if among is None or results.reference is None:
        means = {model: float(results.scores(model, metric).mean()) for model in results.models}
        best = max(means, key=lambda model: means[model])
        return f"{best}: test {metric} {means[best]:.4f}."
    one, ahead, behind = among.difference, results.reference, among.rival
    low, high = one.low, one.high
    if one.mean < 0:
        ahead, behind, low, high = behind, ahead, -high, -low
    of = float(results.by_user(behind, metric).mean())
    relative = f" ({abs(one.mean) / of:.0%})" if of else ""
    if len(results.models) > 2:
        behind = f"{behind}, the best of the others," if one.mean >= 0 else behind
    p = f"p {p_text(among.p)}" + (" after Holm's correction" if len(results.models) > 2 else "")
    sure = f"{'' if among.is_sure else 'not '}significant at {LEVEL:.0%}"
    seeds = min(len(records) for records in results.records.values())
    unknown = " One seed each: how much seeds differ is not known." if seeds == 1 else ""
    return (
        f"{ahead} is ahead of {behind} by {abs(one.mean):.4f} test {metric}{relative}; "
        f"95 % interval {low:+.4f} to {high:+.4f}, {p}: {sure}.{unknown}{_reservations(results, among.rival)}"
    )


def _reservations(results: Results, rival: str) -> str:
    """Say what is to be doubted of the two models that the headline compares."""
    found = [
        f"{' and '.join(model for model in (results.reference, rival) if model in models)}: {text}"
        for text, models in doubts(results).items()
        if {results.reference, rival} & {*models}
    ]
    return f" But {'; '.join(found)}." if found else ""


def p_text(value: float) -> str:
    """Return a p as tables have it."""
    return "< .0001" if value < 1e-4 else f"{value:.4f}"


def doubts(results: Results) -> dict[str, list[str]]:
    """Return why figures may be too low: what is to be said, and of which models."""
    found: dict[str, list[str]] = {}
    for model in results.models:
        records = results.records[model]
        share = min(map(epochs_trained, records))
        if share < 1:
            found.setdefault(f"trained for {share:.0%} of one epoch only", []).append(model)
            continue
        at_the_end, cut_off = ([*filter(test, records)] for test in (_was_best_at_the_end, _was_cut_off))
        if at_the_end or cut_off:
            many, what = len(at_the_end), "were best at their last epoch"
            if len(cut_off) > many:
                many, what = len(cut_off), f"were ended by the limit of {_limit(cut_off[0])}"
            text = f"{many} of {len(records)} runs {what}: a longer training may be better"
            found.setdefault(text, []).append(model)
    return found


def ended_by(record: dict[str, Any]) -> str:
    """Say what ended a training: ``limit`` of epochs, ``budget`` or ``early stopping``."""
    if len(record["epochs"]) >= record["config"]["epochs"] and epochs_trained(record) == len(record["epochs"]):
        return "limit"
    if not record.get("budget"):
        return "early stopping"
    worse = sum(epoch["epoch"] > record["best_epoch"] for epoch in record["epochs"] if epoch.get("valid"))
    return "early stopping" if worse > record["config"]["stopping_step"] else "budget"


def _was_cut_off(record: dict[str, Any]) -> bool:
    """Whether a limit ended what would have gone on; this package's learning rate falls to 0 at the limit."""
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
    """Return what RecBole calls the type of a model, by its name."""
    found: Any = class_of(model) or get_model(model)
    kind: ModelType = found.type
    return kind


def shown_in_an_epoch(record: dict[str, Any]) -> str:
    """Say what a model is shown in one epoch, since epochs of different kind cannot be counted against each other."""
    config = record["config"]
    if is_ours(record["model"]):
        return "sliding windows of each user" if config.get("window") == "sliding" else "a window of each user"
    if parent_of(record["model"]) == RIVAL or (config.get("training_rows") and record["model"] in CAUSAL_MODELS):
        return "all windows of each user (training_rows: user)"
    sequential = type_of(record["model"]) == ModelType.SEQUENTIAL
    return "a padded row a label" if sequential else "each interaction"
