"""The files of a search: RecBole's results, the best options and weights, a page of plots; and what is said of it."""

from __future__ import annotations

import html
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from plotly.subplots import make_subplots
from tabulate import tabulate

from recbole_bert4rec.options.kinds import is_number
from recbole_bert4rec.system.files import atomic_write
from recbole_bert4rec.training.record import counted
from recbole_bert4rec.training.screen import say

Trial = Mapping[str, Any]
"""A record of a run with its ``number`` and ``setting``; if it failed, its ``reason`` in place of a record."""


def write_search(
    ranking: Sequence[Trial],
    failed: Sequence[Trial],
    metric: str,
    options: Mapping[str, Any],
    files: Mapping[str, Path],
) -> pd.DataFrame:
    """Write all files of a search but its records; say what is best; return a row for each trial.

    ``ranking`` has the best trial first, and ``options`` are its options, with model and data set.
    """
    best, title = ranking[0], f"{options['model']} on {options['dataset']}: {len(ranking)} trials"
    content = {name: value for name, value in options.items() if name != "show_progress"}
    with atomic_write(files["best options"]) as temporary:
        temporary.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    with atomic_write(files["weights"]) as temporary:
        shutil.copyfile(files["trials"] / Path(best["checkpoint"]).name, temporary)
    with atomic_write(files["results"]) as temporary:
        texts = [_in_results(trial, trial is best) for trial in (*ranking, *failed)]
        temporary.write_text("".join(texts), encoding="utf-8")
    with atomic_write(files["plots"]) as temporary:
        page(ranking, metric, title).write_html(temporary)
    table = _table([*ranking, *failed], metric)
    best_ten = tabulate(table[: len(ranking)].head(10).to_dict("list"), headers="keys", floatfmt=".4g", showindex=False)
    n_stopped, test = sum(table["status"] == "stopped"), best["test_result"].items()
    model_flag = f" --model={options['model']}" if ":" in options["model"] else ""  # which no file imports
    uses = {"best options": f"   (run.py --config_files={files['best options']}{model_flag})"}
    say(
        f"\nThe best ten, by validation\n\n{best_ten}\n\n"
        f"{len(table)} trials, of which {n_stopped} stopped early and {len(failed)} failed; "
        f"{counted(sum(table['epochs']))}\n  best          {in_words(best['setting'])}\n"
        f"  test of best  {'    '.join(f'{name} {value:.4f}' for name, value in test)}\n"
        + "\n".join(f"  {kind:<14}{path}{uses.get(kind, '')}" for kind, path in files.items())
    )
    return table


def in_words(setting: Mapping[str, Any]) -> str:
    """Return a setting in one line, with numbers of four digits."""
    return ", ".join(f"{name} {f'{v:.4g}' if isinstance(v, float) else v}" for name, v in setting.items())


def _table(trials: Sequence[Trial], metric: str) -> pd.DataFrame:
    """Return a row for each trial."""
    rows = []
    for trial in trials:
        status = "failed" if "reason" in trial else "stopped" if trial.get("stopped") else "finished"
        row = {"trial": trial["number"], "status": status, f"valid {metric}": trial.get("best_valid_score")}
        row |= {"best epoch": trial.get("best_epoch"), "epochs": len(trial.get("epochs", []))}
        rows.append({**row, "seconds": trial.get("seconds", {}).get("total"), **trial["setting"]})
    return pd.DataFrame(rows)


def _in_results(trial: Trial, is_best: bool) -> str:
    """Return a trial as RecBole's file of results has it; the best one has test metrics, too."""
    lines = [", ".join(f"{name}:{value}" for name, value in trial["setting"].items())]
    if "reason" in trial:
        lines.append(f"failed: {trial['reason']}")
    for title, part in (("Valid result:", "best_valid_result"), ("Test result:", "test_result")):
        if (metrics := trial.get(part)) and (is_best or part == "best_valid_result"):
            lines += [title, "    ".join(f"{name} : {value}" for name, value in metrics.items())]
    return "\n".join([*lines, "", ""])


def page(ranking: Sequence[Trial], metric: str, title: str) -> Any:
    """Return plots: parallel coordinates of all trials, and the score by each option alone."""
    scores = pd.Series([trial["best_valid_score"] for trial in ranking], name=f"valid {metric}")
    axes = [_axis(values) for _, values in pd.DataFrame([trial["setting"] for trial in ranking]).items()]
    rest: list[Any] = [None] * (len(axes) - 1)
    specs = [[{"type": "domain", "colspan": len(axes)}, *rest], [{} for _ in axes]]
    figure = make_subplots(rows=2, cols=len(axes), shared_yaxes=True, specs=specs)
    figure.add_parcoords(dimensions=[*axes, _axis(scores)], line={"color": scores, "showscale": True}, row=1, col=1)
    for column, axis in enumerate(axes, 1):
        figure.add_scatter(x=axis["values"], y=scores, mode="markers", row=2, col=column)
        ticks = {name: axis[name] for name in ("tickvals", "ticktext") if name in axis}
        figure.update_xaxes(title=axis["label"], **ticks, row=2, col=column)
    figure.update_yaxes(title=scores.name, row=2, col=1)
    return figure.update_layout(title=html.escape(title), showlegend=False, height=900)


def _axis(values: pd.Series) -> dict[str, Any]:
    """Return the axis of some values: a number stands at its size, anything else at its rank."""
    if all(map(is_number, values)):
        return {"label": values.name, "values": values}
    words = pd.Categorical(values.map(str))
    texts = [*words.categories]
    return {"label": values.name, "values": words.codes, "tickvals": [*range(len(texts))], "ticktext": texts}
