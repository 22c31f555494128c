"""Plots of a search, from its log of trials: parallel coordinates, slices, importance, progress."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import plotly.graph_objects as go
from matplotlib.figure import Figure
from numpy.typing import NDArray
from plotly.io import to_html
from plotly.subplots import make_subplots
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import permutation_importance

from recbole_bert4rec.comparison.figures import plain_text
from recbole_bert4rec.comparison.render import render
from recbole_bert4rec.system.files import atomic_write

_COLOURS = "viridis"
"""Readable in print and by the colour-blind."""
_NUMBER, _SCORE = "number of the trial", "score of the trial"  # no option has a space in its name
_LEAST_TRIALS, _TRIALS_A_PARAMETER = 20, 5
"""With fewer trials, an importance would say nothing."""
_RESAMPLES = 20
_FEW_TICKS = 8
_WIDE = 20
"""Choices above 0 have a logarithmic axis if the largest is at least so many times the smallest."""


@dataclass(frozen=True)
class ScoredTrials:
    """The trials of a search that have a score, as its plots show them.

    Attributes:
        about: the first line of the log: model, dataset, metric, bigger, ...
        trials: a row for each trial: number, score, and a column for each parameter.
    """

    about: dict[str, Any]
    trials: pd.DataFrame

    @property
    def title(self) -> str:
        """Model, data set and number of trials."""
        return f"{self.about['model']} on {self.about['dataset']}: {len(self.trials)} trials"

    @property
    def score_name(self) -> str:
        """Title of the scores."""
        return f"valid {self.about['metric']}"

    @property
    def parameters(self) -> list[str]:
        """Names of the searched options."""
        return [name for name in self.trials.columns if name not in (_NUMBER, _SCORE)]

    def kind(self, name: str) -> str:
        """How the values of a parameter were drawn: ``choice``, ``uniform``, ``loguniform``, ..."""
        return str(self.about["space"][name][0])

    @property
    def scores(self) -> NDArray[np.float64]:
        """Score of each trial."""
        return self.trials[_SCORE].to_numpy(float)


@dataclass(frozen=True)
class Axis:
    """An axis of a parameter or of the score.

    Attributes:
        name: its title.
        positions: of the trials.
        ticks: positions that have a label.
        labels: of the ticks.
    """

    name: str
    positions: NDArray[np.float64]
    ticks: NDArray[np.float64]
    labels: list[str]


def write_report(trials: Path, page: Path) -> dict[str, Path]:
    """Write a page of interactive plots and, beside it, pictures of coordinates and importance.

    Args:
        trials: log of a search, one JSON object a line.
        page: the HTML file, which loads nothing from other places.

    Returns:
        The written files, by their kind.
    """
    search = read_trials(trials)
    axes = [axis_of(name, search.trials[name], search.kind(name)) for name in search.parameters]
    axes.append(axis_of(search.score_name, search.trials[_SCORE], "score"))
    weights = importance(search.trials)
    interactive = [
        _interactive_coordinates(search, axes),
        _interactive_slices(search, axes[:-1]),
        _interactive_progress(search),
    ]
    pictures = {"coordinates": _draw_coordinates(search, axes)}
    if weights is not None:
        interactive.insert(2, _interactive_importance(search, weights))
        pictures["importance"] = _draw_importance(search, weights)
    plots = [to_html(figure, full_html=False, include_plotlyjs=not number) for number, figure in enumerate(interactive)]
    few = "" if weights is not None else "How important each parameter is cannot be said from so few trials."
    with atomic_write(page) as temporary:
        temporary.write_text(render("plots.html", title=search.title, plots=plots, note=few), encoding="utf-8")
    written = {"plots": page}
    for name, picture in pictures.items():
        written[name] = page.with_name(f"{page.stem}.{name}.png")
        with atomic_write(written[name]) as temporary:
            picture.savefig(temporary, dpi=150, format="png")
    return written


def read_trials(path: Path) -> ScoredTrials:
    """Read the trials with a score from the log of a search."""
    lines = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]
    rows = [{_NUMBER: t["number"], _SCORE: t["score"], **t["params"]} for t in lines[1:] if t["score"] is not None]
    return ScoredTrials(lines[0]["search"], pd.DataFrame(rows).sort_values(_NUMBER, ignore_index=True))


def axis_of(name: str, values: pd.Series, kind: str) -> Axis:
    """Return the axis of some values: a number stands at its size or its logarithm, a word at its rank.

    Args:
        name: title of the axis.
        values: of the trials.
        kind: how they were drawn; ``loguniform`` and choices that span much have a logarithmic axis.
    """
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    if not numeric or values.isna().any():
        words = values.map(str)
        distinct = sorted(words.unique())
        positions = words.map({word: float(rank) for rank, word in enumerate(distinct)}).to_numpy(float)
        return Axis(name, positions, np.arange(len(distinct), dtype=float), distinct)
    numbers = values.to_numpy(float)
    spans = kind == "choice" and numbers.max() >= _WIDE * numbers.min()
    wide = numbers.min() > 0 and (spans or kind.startswith("loguniform"))
    positions, ticks = (np.log10(numbers) if wide else numbers), np.unique(numbers)
    if len(ticks) > _FEW_TICKS:
        spread = np.linspace(positions.min(), positions.max(), 5)
        ticks = 10**spread if wide else spread
    return Axis(name, positions, np.log10(ticks) if wide else ticks, [f"{value:.3g}" for value in ticks])


def importance(trials: pd.DataFrame) -> pd.DataFrame | None:
    """Measure how much worse a forest predicts scores if a parameter is shuffled; None for too few trials.

    Permutation importance (Breiman 2001): random forests are fitted to resamples of the trials, and predict those that
    were not drawn. It describes this search and says nothing about other data.

    Args:
        trials: of :class:`ScoredTrials`.

    Returns:
        A row a parameter, the least important first: ``mean`` and standard deviation ``std`` of the loss of R²
        over the resamples.
    """
    names = [name for name in trials.columns if name not in (_NUMBER, _SCORE)]
    if len(trials) < max(_LEAST_TRIALS, _TRIALS_A_PARAMETER * len(names)) or trials[_SCORE].nunique() < 2:
        return None
    features = np.column_stack([axis_of(name, trials[name], "any").positions for name in names])
    scores = trials[_SCORE].to_numpy(float)
    random, losses = np.random.default_rng(0), []
    for seed in range(_RESAMPLES):
        drawn = random.integers(len(trials), size=len(trials))
        left = np.setdiff1d(np.arange(len(trials)), drawn)
        forest = RandomForestRegressor(n_estimators=50, random_state=seed, n_jobs=1).fit(features[drawn], scores[drawn])
        shuffled = permutation_importance(forest, features[left], scores[left], n_repeats=5, random_state=seed)
        losses.append(shuffled.importances_mean)
    table = pd.DataFrame({"mean": np.mean(losses, 0), "std": np.std(losses, 0, ddof=1)}, index=names)
    return table.sort_values("mean")


def _interactive_coordinates(search: ScoredTrials, axes: list[Axis]) -> go.Figure:
    dimensions = [
        {"label": axis.name, "values": axis.positions, "tickvals": axis.ticks, "ticktext": axis.labels} for axis in axes
    ]
    line = {"color": search.scores, "colorscale": _COLOURS, "showscale": True}
    figure = go.Figure(go.Parcoords(line=line, dimensions=dimensions))
    return figure.update_layout(title="Trials: a line each; drag along an axis to select", height=480)


def _interactive_slices(search: ScoredTrials, axes: list[Axis]) -> go.Figure:
    figure = make_subplots(cols=len(axes), shared_yaxes=True, subplot_titles=[axis.name for axis in axes])
    for column, axis in enumerate(axes, 1):
        line = {"color": search.trials[_NUMBER], "colorscale": _COLOURS, "showscale": column == len(axes)}
        marker = {**line, "colorbar": {"title": "trial"}}
        figure.add_scatter(x=axis.positions, y=search.scores, mode="markers", marker=marker, row=1, col=column)
        figure.update_xaxes(tickvals=axis.ticks, ticktext=axis.labels, row=1, col=column)
    figure.update_yaxes(title=search.score_name, col=1)
    return figure.update_layout(title="Slices: the score by each parameter alone", showlegend=False, height=420)


def _interactive_importance(search: ScoredTrials, weights: pd.DataFrame) -> go.Figure:
    bars = {"x": weights["mean"], "y": list(weights.index), "error_x": {"array": weights["std"]}}
    figure = go.Figure(go.Bar(**bars, orientation="h"))
    title = (
        f"Importance for {search.about['metric']}: loss of a forest's R² when a parameter is shuffled, over resamples"
    )
    return figure.update_layout(title=title, height=120 + 40 * len(weights))


def _interactive_progress(search: ScoredTrials) -> go.Figure:
    trials = search.trials
    best = trials[_SCORE].cummax() if search.about["bigger"] else trials[_SCORE].cummin()
    settings = [", ".join(f"{name} {row[name]}" for name in search.parameters) for _, row in trials.iterrows()]
    figure = go.Figure(go.Scatter(x=trials[_NUMBER], y=trials[_SCORE], mode="markers", text=settings, name="trial"))
    figure.add_scatter(x=trials[_NUMBER], y=best, mode="lines", line_shape="hv", name="best so far")
    return figure.update_layout(title="Score by trial", xaxis_title="trial", yaxis_title=search.score_name)


def _draw_coordinates(search: ScoredTrials, axes: list[Axis]) -> Figure:
    figure = Figure(figsize=(2 + 1.6 * len(axes), 4.5), layout="constrained")
    canvas = figure.subplots()
    scores = search.scores
    shades = matplotlib.colormaps[_COLOURS]((scores - scores.min()) / (np.ptp(scores) or 1.0))
    scaled = [_scaled(axis.positions, axis.positions) for axis in axes]
    for number in np.argsort(scores if search.about["bigger"] else -scores):
        canvas.plot(range(len(axes)), [positions[number] for positions in scaled], color=shades[number], alpha=0.8)
    for column, axis in enumerate(axes):
        canvas.axvline(column, color="black", linewidth=0.8)
        box = {"color": "white", "alpha": 0.7, "pad": 0.5}
        for height, text in zip(_scaled(axis.ticks, axis.positions), axis.labels, strict=True):
            canvas.text(column + 0.03, height, plain_text(text), fontsize=8, va="center", bbox=box)
    canvas.set_xticks(range(len(axes)), [plain_text(axis.name) for axis in axes], rotation=12)
    canvas.set_yticks([])
    canvas.set_title(plain_text(f"{search.title}, the best brightest"))
    return figure


def _scaled(values: NDArray[np.float64], positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale values to heights from 0, the lowest position, to 1, the highest."""
    width = np.ptp(positions)
    return (values - positions.min()) / width if width else np.full(len(values), 0.5)


def _draw_importance(search: ScoredTrials, weights: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(6, 1.2 + 0.4 * len(weights)), layout="constrained")
    canvas = figure.subplots()
    names = [plain_text(name) for name in weights.index]
    canvas.barh(names, weights["mean"], xerr=weights["std"], color="#0072b2", ecolor="grey", capsize=3)
    canvas.set_xlabel("loss of R² when shuffled: mean and standard deviation over resamples of the trials")
    canvas.set_title(plain_text(f"Importance for {search.score_name}"))
    return figure
