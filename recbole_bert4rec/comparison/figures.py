"""The pictures of a comparison, in colours for the colour-blind and shapes for black and white print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

from recbole_bert4rec.comparison.results import Results, metric_of
from recbole_bert4rec.system.constants import RANK_DEPTH

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c00")
"""After Okabe and Ito (2008)."""
_MARKERS, _LINES = "osD^vPX*", ("-", "--", "-.", ":")
_BINS, _FEW = 5, 6
_SHORT = 10
"""Epochs below which an axis need not be logarithmic."""


def draw(results: Results) -> dict[str, Figure]:
    """Draw every picture; return them by name."""
    figures = {
        "learning curves": _curves(results),
        "groups of users": _groups(results),
        "length of the list": _top_k(results),
    }
    if results.about.get("axis"):
        figures = {"what is varied": _axis(results), **figures}
    return figures


def _axis(results: Results) -> Figure:
    """Draw test metrics along the option that a study varies, as the paper's Figures 3 and 4."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    values = {model: results.about["axis"][model] for model in results.models}
    models = sorted(values, key=lambda model: values[model])
    shown = [metric for metric in results.metrics if metric.endswith("@10")][:2] or results.metrics[:2]
    sides = np.atleast_1d(figure.subplots(1, len(shown)))
    for axes, metric in zip(sides, shown, strict=True):
        runs = [results.scores(model, metric) for model in models]
        spread = [scores.std(ddof=1) if len(scores) > 1 else 0.0 for scores in runs]
        positions = range(len(models))  # evenly, as the paper draws powers of 2
        axes.errorbar(positions, [scores.mean() for scores in runs], spread, capsize=2, **_style(0))
        for position, scores in zip(positions, runs, strict=True):  # a run is a dot
            axes.plot([position] * len(scores), scores, ".", color=_COLOURS[1], markersize=4, zorder=3)
        axes.set_xticks(positions, [f"{values[model]:g}" for model in models])
        axes.set(xlabel=plain_text(results.about["varied"]), ylabel=f"test {metric}")
    return _bare(figure, sides)


def plain_text(text: object) -> str:
    """Escape dollar signs, between which matplotlib would set mathematics."""
    return str(text).replace("$", r"\$")


def _style(number: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKERS[(number + number // len(_COLOURS)) % len(_MARKERS)],
        "linestyle": _LINES[number % len(_LINES)],
    }


def _legend(figure: Figure, axes: Axes) -> None:
    """Put the models' names into the picture, or below it if they are many."""
    handles, names = axes.get_legend_handles_labels()
    if len(names) <= _FEW:
        axes.legend(frameon=False)
        return
    columns = int(figure.get_figwidth() // 2.5)
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=columns)
    figure.set_figheight(figure.get_figheight() + 0.22 * -(-len(names) // columns))


def _curves(results: Results) -> Figure:
    """Draw validation against epochs and against seconds; a line is a run."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    metric = results.main_metric
    for number, model in enumerate(results.models):
        for seed_number, record in enumerate(results.records[model]):
            rows = [row for row in record["epochs"] if (row.get("valid") or {}).get(metric) is not None]
            values = [row["valid"][metric] for row in rows]
            label = {"label": plain_text(model)} if seed_number == 0 else {}
            style = {**_style(number), "markersize": 4, "linewidth": 1.2, "markevery": max(1, len(rows) // 12)}
            left.plot([row["epoch"] + 1 for row in rows], values, **style, **label)
            right.plot([row["at_second"] for row in rows], values, **style, **label)
    left.set(xlabel="epochs trained", ylabel=f"validation {metric}")
    right.set(xlabel="seconds of training and validation (logarithmic)", xscale="log")
    if left.get_xlim()[1] < _SHORT:
        left.xaxis.set_major_locator(MaxNLocator(integer=True))
    else:
        left.set(xlabel="epochs trained (logarithmic)", xscale="log")
    for axes in (axes for axes in (left, right) if axes.get_xscale() == "log"):
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    _legend(figure, left)
    return _bare(figure, [left, right])


def _groups(results: Results) -> Figure:
    """Draw the test metric by length of the history and by popularity of the target."""
    titles = {
        "history_length": "items before the target",
        "target_popularity": "interactions of the target in training",
    }
    many = len(results.models) > _FEW
    height = 1.5 + 0.3 * len(results.models) if many else 4.0
    figure = Figure(figsize=(10, height), layout="constrained")
    sides = figure.subplots(1, 2, sharey=True)
    for axes, (column, title) in zip(sides, titles.items(), strict=True):
        group, labels = groups(results.rows[column])
        members = [group == number for number in range(len(labels))]
        means = {model: results.by_user(model, results.main_metric).mean(0) for model in results.models}
        parts = {model: [of_users[users] for users in members] for model, of_users in means.items()}
        (_draw_shades if many else _draw_bars)(axes, parts)
        ticks = [f"{label}\n{users.sum()} users" for label, users in zip(labels, members, strict=True)]
        axes.set_xticks(range(len(labels)), ticks)
        axes.set_xlabel(title)
    if many:
        figure.suptitle(
            f"test {results.main_metric}; red is better than {plain_text(results.models[0])}, blue worse", fontsize=10
        )
        return figure
    sides[0].set_ylabel(f"test {results.main_metric}")
    _legend(figure, sides[0])
    return _bare(figure, sides)


def _draw_bars(axes: Axes, parts: dict[str, list[NDArray[np.float64]]]) -> None:
    """Draw a line a model; bars are 95 % intervals."""
    for number, (model, of_groups) in enumerate(parts.items()):
        shift = (number - (len(parts) - 1) / 2) * min(0.12, 0.8 / len(parts))
        means = np.array([part.mean() for part in of_groups])
        error = np.array([1.96 * part.std(ddof=1) / np.sqrt(len(part)) if len(part) > 1 else 0.0 for part in of_groups])
        bars = np.stack([np.minimum(error, means), error])  # no metric is below 0
        style = {**_style(number), "linewidth": 0.8, "capsize": 2}
        axes.errorbar(np.arange(len(means)) + shift, means, bars, label=plain_text(model), **style)


def _draw_shades(axes: Axes, parts: dict[str, list[NDArray[np.float64]]]) -> None:
    """Draw a row a model, for many models; shades compare it with the first model in each group."""
    means = np.array([[part.mean() for part in of_groups] for of_groups in parts.values()])
    change = means - means[0]
    most = float(np.abs(change).max()) or 1.0
    axes.imshow(change, cmap="coolwarm", vmin=-most, vmax=most, aspect="auto")
    for (row, column), mean in np.ndenumerate(means):
        shade = "white" if abs(change[row, column]) > 0.7 * most else "black"
        axes.text(column, row, f"{mean:.3f}", ha="center", va="center", fontsize=8, color=shade)
    axes.set_yticks(range(len(parts)), [plain_text(model) for model in parts])


def groups(values: pd.Series) -> tuple[Any, list[str]]:
    """Form up to five groups of about as many users each; return the group of every user, and the groups' names."""
    cuts = np.unique(np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1], method="lower"))
    group = np.searchsorted(cuts, values.to_numpy(), side="left")  # a cut is the last value of its group
    present = np.unique(group)
    group = np.searchsorted(present, group)
    of_groups = [values[group == number].astype(int) for number in range(len(present))]
    bounds = [(part.min(), part.max()) for part in of_groups]
    return group, [str(low) if low == high else f"{low}–{high}" for low, high in bounds]


def _top_k(results: Results) -> Figure:
    """Draw Hit and NDCG as lists grow."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    sides = figure.subplots(1, 2)
    depth = np.unique(np.linspace(1, min(RANK_DEPTH, results.about["items"]), 26).astype(int))
    for axes, name in zip(sides, ("hit", "ndcg"), strict=True):
        for number, model in enumerate(results.models):
            values = [metric_of(results.ranks[model], f"{name}@{k}").mean() for k in depth]
            axes.plot(
                depth, values, label=plain_text(model), markersize=4, markevery=5, linewidth=1.2, **_style(number)
            )
        axes.set(xlabel="k", ylabel=f"test {name}@k", ylim=(0, None))
    _legend(figure, sides[0])
    return _bare(figure, sides)


def _bare(figure: Figure, sides: Iterable[Axes]) -> Figure:
    for axes in sides:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return figure
