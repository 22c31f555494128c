"""The pictures of a comparison, in colours for the colour-blind and shapes for black and white print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

from recbole_bert4rec.comparison.results import Results

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c8c00")
"""After Okabe and Ito (2008)."""
_MARKERS, _LINES = "osD^vPX*", ("-", "--", "-.", ":")
_FEW = 6
_SHORT = 10
"""Epochs below which an axis need not be logarithmic."""


def draw(results: Results) -> dict[str, Figure]:
    """Draw every picture; return them by the name of their file."""
    varied = {"what-is-varied": _axis(results)} if results.about.get("axis") else {}
    return {**varied, "learning-curves": _curves(results)}


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


def _bare(figure: Figure, sides: Iterable[Axes]) -> Figure:
    for axes in sides:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return figure
