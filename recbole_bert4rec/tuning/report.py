"""Plots of a search, from its log of trials: parallel coordinates, importance, progress."""

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
from sklearn.ensemble import RandomForestRegressor
from sklearn.inspection import permutation_importance

from recbole_bert4rec.comparison.figures import plain_text
from recbole_bert4rec.comparison.render import render
from recbole_bert4rec.files import atomic_write

_COLOURS = "viridis"
"""Readable in print and by the colour-blind."""
_NUMBER, _SCORE = "number of the trial", "score of the trial"  # no option has a space in its name
_LEAST_TRIALS = 8
"""Below, an importance would say nothing."""


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
        """What was searched."""
        return f"{self.about['model']} on {self.about['dataset']}: {len(self.trials)} trials"

    @property
    def score_name(self) -> str:
        """Title of the scores."""
        return f"valid {self.about['metric']}"

    @property
    def parameters(self) -> list[str]:
        """Names of what was searched over."""
        return [name for name in self.trials.columns if name not in (_NUMBER, _SCORE)]

    @property
    def scores(self) -> NDArray[np.float64]:
        """Score of each trial."""
        return self.trials[_SCORE].to_numpy(float)


@dataclass(frozen=True)
class Axis:
    """An axis of parallel coordinates.

    Attributes:
        places: number at which each trial is drawn.
        labels: of the places 0, 1, ... where values are few or no numbers; else None.
    """

    name: str
    places: NDArray[np.float64]
    labels: list[str] | None = None


def write_report(trials: Path, page: Path) -> dict[str, Path]:
    """Write a page of interactive plots and, beside it, pictures of coordinates and importance.

    Args:
        trials: log of a search, one JSON object a line.
        page: the HTML file, without anything from elsewhere.

    Returns:
        What was written, by what it is.
    """
    search = read_trials(trials)
    axes = [*(_axis(name, search.trials[name]) for name in search.parameters), Axis(search.score_name, search.scores)]
    weights = importance(search.trials)
    interactive = [_interactive_coordinates(search, axes), _interactive_progress(search)]
    pictures = {"coordinates": _draw_coordinates(search, axes)}
    if weights is not None:
        interactive.insert(1, _interactive_importance(search, weights))
        pictures["importance"] = _draw_importance(search, weights)
    plots = [to_html(figure, full_html=False, include_plotlyjs=not number) for number, figure in enumerate(interactive)]
    with atomic_write(page) as temporary:
        temporary.write_text(render("plots.html", title=search.title, plots=plots), encoding="utf-8")
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


def _axis(name: str, values: pd.Series) -> Axis:
    """Return where to draw each value: at its number; or at its place among the values, where these are few."""
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    numeric = numeric and not values.isna().any()
    distinct = sorted(values.map(lambda v: v if numeric else str(v)).unique())
    if numeric and len(distinct) > 12:
        return Axis(name, values.to_numpy(float))
    place = {value: number for number, value in enumerate(distinct)}
    places = values.map(lambda v: place[v if numeric else str(v)]).to_numpy(float)
    return Axis(name, places, [f"{value:.4g}" if isinstance(value, float) else str(value) for value in distinct])


def importance(trials: pd.DataFrame) -> pd.Series | None:
    """Return how much of the score a forest loses when a parameter's values are shuffled; None for too few trials.

    Permutation importance (Breiman 2001) of a random forest fitted to the trials themselves. It describes this search
    and says nothing about other data.

    Args:
        trials: of :class:`ScoredTrials`.
    """
    names = [name for name in trials.columns if name not in (_NUMBER, _SCORE)]
    if len(trials) < _LEAST_TRIALS or trials[_SCORE].nunique() < 2:
        return None
    features = np.column_stack([_axis(name, trials[name]).places for name in names])
    forest = RandomForestRegressor(n_estimators=200, random_state=0, n_jobs=1).fit(features, trials[_SCORE])
    found = permutation_importance(forest, features, trials[_SCORE], n_repeats=20, random_state=0)
    return pd.Series(found.importances_mean, index=names).clip(lower=0).sort_values()


def _interactive_coordinates(search: ScoredTrials, axes: list[Axis]) -> go.Figure:
    dimensions = []
    for axis in axes:
        ticks = {} if axis.labels is None else {"tickvals": list(range(len(axis.labels))), "ticktext": axis.labels}
        dimensions.append({"label": axis.name, "values": axis.places, **ticks})
    line = {"color": search.scores, "colorscale": _COLOURS, "showscale": True}
    figure = go.Figure(go.Parcoords(line=line, dimensions=dimensions))
    return figure.update_layout(title="Trials: a line each; drag along an axis to select", height=480)


def _interactive_importance(search: ScoredTrials, weights: pd.Series) -> go.Figure:
    figure = go.Figure(go.Bar(x=weights.to_numpy(), y=list(weights.index), orientation="h"))
    title = f"Importance for {search.about['metric']}: loss of a forest's R² when a parameter is shuffled"
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
    scaled = [_scaled(axis.places) for axis in axes]
    for number in np.argsort(scores if search.about["bigger"] else -scores):
        canvas.plot(range(len(axes)), [places[number] for places in scaled], color=shades[number], alpha=0.8)
    for place, axis in enumerate(axes):
        canvas.axvline(place, color="black", linewidth=0.8)
        if axis.labels is None:
            ticks = np.linspace(axis.places.min(), axis.places.max(), 5)
            texts = [f"{tick:.3g}" for tick in ticks]
        else:
            ticks, texts = np.arange(len(axis.labels)), axis.labels
        box = {"color": "white", "alpha": 0.7, "pad": 0.5}
        for height, text in zip(_scaled(ticks), texts, strict=True):
            canvas.text(place + 0.03, height, plain_text(text), fontsize=8, va="center", bbox=box)
    canvas.set_xticks(range(len(axes)), [plain_text(axis.name) for axis in axes], rotation=12)
    canvas.set_yticks([])
    canvas.set_title(plain_text(f"{search.title}, the best brightest"))
    return figure


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    width = np.ptp(values)
    return (values - values.min()) / width if width else np.full(len(values), 0.5)


def _draw_importance(search: ScoredTrials, weights: pd.Series) -> Figure:
    figure = Figure(figsize=(6, 1.2 + 0.4 * len(weights)), layout="constrained")
    canvas = figure.subplots()
    canvas.barh([plain_text(name) for name in weights.index], weights.to_numpy(), color="#0072b2")
    canvas.set_xlabel("loss of R² when shuffled")
    canvas.set_title(plain_text(f"Importance for {search.score_name}"))
    return figure
