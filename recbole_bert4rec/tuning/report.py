"""The page of a search, from its log of trials: parallel coordinates, and the score by each parameter."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.io import to_html
from plotly.subplots import make_subplots

from recbole_bert4rec.system.files import atomic_write

_COLOURS = "viridis"
"""Readable in print and by the colour-blind."""
_NUMBER, _SCORE = "number of the trial", "score of the trial"  # no option has a space in its name
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


def write_report(trials: Path, page: Path) -> None:
    """Write a page of interactive plots."""
    search = read_trials(trials)
    axes = [axis_of(name, search.trials[name], search.kind(name)) for name in search.parameters]
    axes.append(axis_of(search.score_name, search.trials[_SCORE], "score"))
    figures = [_coordinates(search, axes), _slices(search, axes[:-1])]
    plots = [to_html(figure, full_html=False, include_plotlyjs=not number) for number, figure in enumerate(figures)]
    title = html.escape(search.title)
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n<h1>{title}</h1>\n'
    with atomic_write(page) as temporary:
        temporary.write_text(head + "\n".join(plots), encoding="utf-8")


def read_trials(path: Path) -> ScoredTrials:
    """Read the trials with a score from the log of a search."""
    lines = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]
    rows = [{_NUMBER: t["number"], _SCORE: t["score"], **t["params"]} for t in lines[1:] if t["score"] is not None]
    return ScoredTrials(lines[0]["search"], pd.DataFrame(rows).sort_values(_NUMBER, ignore_index=True))


def axis_of(name: str, values: pd.Series, kind: str) -> Axis:
    """Return the axis of some values: a number stands at its size or its logarithm, a word at its rank."""
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


def _coordinates(search: ScoredTrials, axes: list[Axis]) -> go.Figure:
    dimensions = [
        {"label": axis.name, "values": axis.positions, "tickvals": axis.ticks, "ticktext": axis.labels} for axis in axes
    ]
    line = {"color": search.scores, "colorscale": _COLOURS, "showscale": True}
    figure = go.Figure(go.Parcoords(line=line, dimensions=dimensions))
    return figure.update_layout(title="Trials: a line each; drag along an axis to select", height=480)


def _slices(search: ScoredTrials, axes: list[Axis]) -> go.Figure:
    figure = make_subplots(cols=len(axes), shared_yaxes=True, subplot_titles=[axis.name for axis in axes])
    for column, axis in enumerate(axes, 1):
        line = {"color": search.trials[_NUMBER], "colorscale": _COLOURS, "showscale": column == len(axes)}
        marker = {**line, "colorbar": {"title": "trial"}}
        figure.add_scatter(x=axis.positions, y=search.scores, mode="markers", marker=marker, row=1, col=column)
        figure.update_xaxes(tickvals=axis.ticks, ticktext=axis.labels, row=1, col=column)
    figure.update_yaxes(title=search.score_name, col=1)
    return figure.update_layout(title="Slices: the score by each parameter alone", showlegend=False, height=420)
