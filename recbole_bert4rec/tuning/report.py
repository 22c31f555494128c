"""Plots of a search for hyper-parameters, from its file of trials: parallel coordinates, importance, progress."""

from __future__ import annotations

import json
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

from recbole_bert4rec.files import atomic_write

_COLOURS = "viridis"
"""Readable in print and by the colour-blind."""
_NUMBER, _SCORE = "number of the trial", "score of the trial"  # no option has a space in its name
_LEAST_TRIALS = 8
"""Below, an importance would say nothing."""


def write_report(trials: Path, page: Path) -> dict[str, Path]:
    """Write a page of interactive plots and, beside it, the same as PNG.

    Args:
        trials: file of a search, one JSON object a line.
        page: the HTML file, without anything from elsewhere.

    Returns:
        What was written, by name.
    """
    about, frame = read_trials(trials)
    written = {"plots": page}
    figures = [_coordinates(frame, about), _progress(frame, about)]
    weights = importance(frame)
    if weights is not None:
        figures.insert(1, _importance(weights, about))
    parts = [to_html(figure, full_html=False, include_plotlyjs=not number) for number, figure in enumerate(figures)]
    title = f"{about['model']} on {about['dataset']}: {len(frame)} trials"
    with atomic_write(page) as temporary:
        temporary.write_text(
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
            f'<body style="font-family: sans-serif; max-width: 1100px; margin: auto"><h1>{title}</h1>'
            f"{''.join(parts)}</body></html>",
            encoding="utf-8",
        )
    pictures = {"coordinates": _draw_coordinates(frame, about)}
    if weights is not None:
        pictures["importance"] = _draw_importance(weights, about)
    for name, picture in pictures.items():
        written[name] = page.with_name(f"{page.stem}.{name}.png")
        picture.savefig(written[name], dpi=150)
    return written


def read_trials(path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """What a search is about, and its trials with a score: that, their number and a column for each parameter."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    about, trials = lines[0]["study"], [trial for trial in lines[1:] if trial["score"] is not None]
    rows = [{_NUMBER: t["number"], _SCORE: t["score"], **t["params"]} for t in trials]
    return about, pd.DataFrame(rows).sort_values(_NUMBER, ignore_index=True)


def _names(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame.columns if name not in (_NUMBER, _SCORE)]


def _axis(values: pd.Series) -> tuple[NDArray[np.float64], list[Any] | None]:
    """Numbers to draw a parameter at; with their labels where the values are few or no numbers."""
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    numeric = numeric and not values.isna().any()
    distinct = sorted(values.map(lambda v: v if numeric else str(v)).unique())
    if numeric and len(distinct) > 12:
        return values.to_numpy(float), None
    place = {value: number for number, value in enumerate(distinct)}
    return values.map(lambda v: place[v if numeric else str(v)]).to_numpy(float), distinct


def importance(frame: pd.DataFrame) -> pd.Series | None:
    """How much of the score a forest loses when a parameter's values are shuffled; None for too few trials.

    Permutation importance (Breiman 2001) of a random forest fitted to the trials themselves: a description of this
    search, no statement about other data.
    """
    names = _names(frame)
    if len(frame) < _LEAST_TRIALS or frame[_SCORE].nunique() < 2:
        return None
    features = np.column_stack([_axis(frame[name])[0] for name in names])
    forest = RandomForestRegressor(n_estimators=200, random_state=0, n_jobs=1).fit(features, frame[_SCORE])
    found = permutation_importance(forest, features, frame[_SCORE], n_repeats=20, random_state=0)
    return pd.Series(found.importances_mean, index=names).clip(lower=0).sort_values()


def _coordinates(frame: pd.DataFrame, about: dict[str, Any]) -> go.Figure:
    dimensions = []
    for name in _names(frame):
        places, labels = _axis(frame[name])
        ticks = {} if labels is None else {"tickvals": list(range(len(labels))), "ticktext": [str(v) for v in labels]}
        dimensions.append({"label": name, "values": places, **ticks})
    dimensions.append({"label": f"valid {about['metric']}", "values": frame[_SCORE]})
    line = {"color": frame[_SCORE], "colorscale": _COLOURS, "showscale": True}
    figure = go.Figure(go.Parcoords(line=line, dimensions=dimensions))
    return figure.update_layout(title="Trials: a line each; drag along an axis to select", height=480)


def _importance(weights: pd.Series, about: dict[str, Any]) -> go.Figure:
    figure = go.Figure(go.Bar(x=weights.to_numpy(), y=list(weights.index), orientation="h"))
    title = f"Importance for {about['metric']}: loss of a forest's R² when a parameter is shuffled"
    return figure.update_layout(title=title, height=120 + 40 * len(weights))


def _progress(frame: pd.DataFrame, about: dict[str, Any]) -> go.Figure:
    best = frame[_SCORE].cummax() if about["bigger"] else frame[_SCORE].cummin()
    settings = [", ".join(f"{name} {row[name]}" for name in _names(frame)) for _, row in frame.iterrows()]
    figure = go.Figure(go.Scatter(x=frame[_NUMBER], y=frame[_SCORE], mode="markers", text=settings, name="trial"))
    figure.add_scatter(x=frame[_NUMBER], y=best, mode="lines", line_shape="hv", name="best so far")
    return figure.update_layout(title="Score by trial", xaxis_title="trial", yaxis_title=f"valid {about['metric']}")


def _draw_coordinates(frame: pd.DataFrame, about: dict[str, Any]) -> Figure:
    names = _names(frame)
    figure = Figure(figsize=(2 + 1.6 * (len(names) + 1), 4.5), layout="constrained")
    axes = figure.subplots()
    columns, scores = [_axis(frame[name]) for name in names], frame[_SCORE].to_numpy(float)
    columns.append((scores, None))
    shades = matplotlib.colormaps[_COLOURS]((scores - scores.min()) / (np.ptp(scores) or 1.0))
    scaled = [_scaled(places) for places, _ in columns]
    for number in np.argsort(scores if about["bigger"] else -scores):
        axes.plot(range(len(columns)), [places[number] for places in scaled], color=shades[number], alpha=0.8)
    for place, (values, labels) in enumerate(columns):
        axes.axvline(place, color="black", linewidth=0.8)
        ticks = np.linspace(values.min(), values.max(), 5) if labels is None else np.arange(len(labels))
        texts = [f"{tick:.3g}" for tick in ticks] if labels is None else [f"{label}" for label in labels]
        for at, text in zip(_scaled(ticks), texts, strict=True):
            axes.text(
                place + 0.03, at, text, fontsize=8, va="center", bbox={"color": "white", "alpha": 0.7, "pad": 0.5}
            )
    axes.set_xticks(range(len(columns)), [*names, f"valid {about['metric']}"], rotation=12)
    axes.set_yticks([])
    axes.set_title(f"{about['model']} on {about['dataset']}: {len(frame)} trials, the best brightest")
    return figure


def _scaled(values: NDArray[Any]) -> NDArray[np.float64]:
    width = np.ptp(values)
    return (values - values.min()) / width if width else np.full(len(values), 0.5)


def _draw_importance(weights: pd.Series, about: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(6, 1.2 + 0.4 * len(weights)), layout="constrained")
    axes = figure.subplots()
    axes.barh(list(weights.index), weights.to_numpy(), color="#0072b2")
    axes.set_xlabel("loss of R² when shuffled")
    axes.set_title(f"Importance for valid {about['metric']}")
    return figure
