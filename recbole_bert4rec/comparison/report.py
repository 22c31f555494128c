"""A comparison's report: one set of tables and pictures, written as Markdown, as LaTeX and as a page of HTML."""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from recbole.utils import ModelType, get_model

from recbole_bert4rec.comparison.figures import draw
from recbole_bert4rec.comparison.render import render
from recbole_bert4rec.comparison.results import Results, epochs_trained
from recbole_bert4rec.comparison.significance import difference, holm
from recbole_bert4rec.files import atomic_write
from recbole_bert4rec.options.global_time import GlobalTime
from recbole_bert4rec.plugin.user_rows import CAUSAL_MODELS


@dataclass(frozen=True)
class Cell:
    """A text of a table.

    Attributes:
        place: 1 where it is the best of its group, 2 the second, and so on; 0: there is no order.
    """

    text: str
    place: int = 0


@dataclass(frozen=True)
class Table:
    """Rows of cells under a header."""

    header: list[str]
    rows: list[list[Cell]]


@dataclass(frozen=True)
class Section:
    """A table, its title (the first has none) and how to read it."""

    title: str
    table: Table
    note: str


@dataclass(frozen=True)
class Picture:
    """A figure: as a file beside the report, and as an element of a page."""

    caption: str
    file: str
    svg: str


@dataclass(frozen=True)
class Report:
    """All that a report shows, whatever its format.

    Attributes:
        command: what the user typed.
        facts: what one must know to read the tables, a line each.
    """

    title: str
    command: str
    facts: list[str]
    sections: list[Section]
    pictures: list[Picture]


def write_comparison(folder: Path, results: Results) -> dict[str, Path]:
    """Write runs.csv, the pictures, report.md, table.tex and report.html.

    Args:
        folder: of the comparison.
        results: of its finished runs.

    Returns:
        What was written, by what it is.
    """
    report = Report(
        title=f"{', '.join(results.models)} on {results.about['dataset']}",
        command=results.about["command"],
        facts=_facts(results),
        sections=_sections(results),
        pictures=[_write_picture(folder, name, figure) for name, figure in draw(results).items()],
    )
    with atomic_write(folder / "runs.csv") as temporary:
        results.table().to_csv(temporary, index=False)
    texts = {
        "Markdown": ("report.md", render("report.md", report=report)),
        "LaTeX": ("table.tex", render("table.tex", report=report, table=_improvements(results))),
        "page": ("report.html", render("report.html", report=report, title=report.title)),
    }
    written = {"runs": folder / "runs.csv"}
    for what, (name, text) in texts.items():
        written[what] = folder / name
        with atomic_write(written[what]) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return written


def _write_picture(folder: Path, name: str, figure: Figure) -> Picture:
    file = f"{name.replace(' ', '-')}.png"
    with atomic_write(folder / file) as temporary:
        figure.savefig(temporary, dpi=120, format="png")
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return Picture(_CAPTIONS[name], file, text.getvalue()[text.getvalue().index("<svg") :])


def _sections(results: Results) -> list[Section]:
    sections = [Section("", _scores(results), _NOTES["scores"])]
    for name, values in results.records[results.models[0]][0].get("also", {}).items():
        table = _means(results, list(values), partial(_tested_under, name))
        sections.append(Section(f"The same models under {name}", table, _NOTES["also"]))
    differences = _differences(results)
    if differences.rows:
        sections.append(Section("Differences", differences, _NOTES["differences"]))
    sections.append(Section("Cost", _costs(results), _NOTES["costs"]))
    if results.has_variety:
        sections.append(Section("Variety", _varieties(results), _NOTES["variety"]))
    return sections


def places(values: list[float]) -> list[int]:
    """Return the place of each value among all: 1 for the highest; equal values share a place."""
    distinct = sorted(set(values), reverse=True)
    return [distinct.index(value) + 1 for value in values]


def _cells(*texts: str) -> list[Cell]:
    return [Cell(text) for text in texts]


def _mean_text(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


def _scores(results: Results) -> Table:
    """Return mean and standard deviation over seeds, models by metrics."""
    return _means(results, results.metrics, lambda record: record["test_result"])


def _tested_under(protocol: str, record: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = record["also"][protocol]
    return found


def _means(results: Results, metrics: list[str], result: Callable[[dict[str, Any]], dict[str, float]]) -> Table:
    rows = [_cells(model, str(len(results.records[model]))) for model in results.models]
    for metric in metrics:
        runs = [[result(record)[metric] for record in results.records[model]] for model in results.models]
        for row, scores, place in zip(rows, runs, places([statistics.mean(scores) for scores in runs]), strict=True):
            row.append(Cell(_mean_text(scores), place))
    return Table(["model", "seeds", *metrics], rows)


def _improvements(results: Results) -> Table:
    """Return means, metrics by models, with the first model's improvement over the best other (the paper's Table 2)."""
    rows = []
    for metric in results.metrics:
        means = [float(results.scores(model, metric).mean()) for model in results.models]
        cells = [Cell(f"{mean:.4f}", place) for mean, place in zip(means, places(means), strict=True)]
        best = max(means[1:], default=0.0) if results.reference else 0.0
        rows.append([Cell(metric), *cells, Cell(f"{100 * (means[0] / best - 1):+.2f}%" if best else "--")])
    return Table(["Metric", *results.models, "Improv."], rows)


def _costs(results: Results) -> Table:
    """Return what a run of each model took, in the median over seeds."""

    def median(model: str, value: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(value(record) for record in results.records[model])

    rows = []
    for model in results.models:
        epochs = median(model, epochs_trained)
        best = median(model, lambda record: float(record["best_epoch"]))
        train = median(model, lambda record: sum(row["train_seconds"] for row in record["epochs"]))
        rows.append(
            _cells(
                model,
                f"{epochs:.2f}" if epochs % 1 else f"{epochs:.0f}",
                f"{best:.0f}",
                f"{median(model, lambda record: record['seconds']['train']):.1f}",
                f"{train:.1f}",
                f"{median(model, lambda record: record['peak_memory_mb']):,.0f}",
                f"{median(model, lambda record: record['parameters']):,.0f}",
            )
        )
    header = ["model", "epochs", "best epoch (from 0)", "seconds", "of which training", "peak memory, MB", "parameters"]
    return Table(header, rows)


def _varieties(results: Results) -> Table:
    names = list(results.records[results.models[0]][0]["variety"])
    rows = [
        _cells(model, *(_mean_text([record["variety"][name] for record in results.records[model]]) for name in names))
        for model in results.models
    ]
    return Table(["model", *names], rows)


def _differences(results: Results) -> Table:
    """Return the first model against each other one: difference, interval, p, and p corrected by Holm."""
    first, rows = results.reference, []
    rivals = [model for model in results.models if model != first] if first else []
    for metric in distinct_metrics(results.metrics):
        found = [difference(results.by_user(str(first), metric), results.by_user(rival, metric)) for rival in rivals]
        corrected = holm([one.p for one in found])
        for rival, one, p in zip(rivals, found, corrected, strict=True):
            best = " (best rival)" if rival == results.best_rival(metric) else ""
            interval = f"{one.low:+.4f} to {one.high:+.4f}"
            rows.append(_cells(metric, f"{first} − {rival}{best}", f"{one.mean:+.4f}", interval, _p(one.p), _p(p)))
    return Table(["metric", "difference", "mean", "95 % interval", "p", "p (Holm)"], rows)


def distinct_metrics(metrics: list[str]) -> list[str]:
    """Return the metrics without those that equal hit up to a factor: there is one target a user."""
    same = {"recall", "precision"}
    return [m for m in metrics if m.split("@")[0] not in same or f"hit@{m.split('@')[1]}" not in metrics]


def _p(value: float) -> str:
    return "< .0001" if value < 1e-4 else f"{value:.4f}"


def _facts(results: Results) -> list[str]:
    """Return what one must know to read the tables, a line each."""
    about, rules = results.about, results.about["rules"]
    valid_mode, mode = (rules["eval_args"]["mode"][phase] for phase in ("valid", "test"))
    among = "all items" if mode == "full" else f"{mode[3:]} candidates ({mode}), the same for every model"
    seen = "left out" if rules["exclude_seen"] else "ranked like all others (RecBole's protocol)"
    dropped = about["dropped"]
    ended = (
        f"each run trained for {about['budget']:g} s at most, validation included; the best epoch by validation counts"
        if about["budget"]
        else "each run ended by its own early stopping on validation, or after the epochs that its options allow"
    )
    records = [record for of_model in results.records.values() for record in of_model]
    machine, versions = records[0]["machine"], records[0]["versions"]
    commits = sorted({record["commit"] for record in records if record.get("commit")})
    return [
        f"Data: {about['dataset']}, {about['users']:,} users, {about['items']:,} items, "
        f"{about['interactions']:,} interactions"
        + (f"; {dropped:,} users with fewer than 4 interactions left out for all models" if dropped else ""),
        f"Split: {_split(rules['eval_args']['split'])}; the rows of all models were proven equal before training",
        f"Ranking: the target among {among}; seen items {seen}"
        + ("" if valid_mode == mode else f"; in validation {valid_mode}"),
        f"Selection: by validation {results.main_metric}; {ended}; every run tested once; seeds "
        f"{', '.join(map(str, about['seeds']))}",
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"GPU {machine['gpu'] or 'none'}; "
        + ", ".join(f"{name} {versions[name]}" for name in ("recbole_bert4rec", "recbole", "torch") if name in versions)
        + (f"; git commit {', '.join(commits)}" if commits else ""),
        *_variants(about.get("variants", {})),
        *_longest_inputs(results),
        *_on_windows(results),
        *_partly_trained(results),
        *(f"Failed: {name}: {reason}" for name, reason in results.failed.items()),
    ]


def _split(split: dict[str, Any]) -> str:
    """Say which interactions are tested and validated."""
    if "GT" not in split:
        return "the last interaction of a user is the test, the one before it the validation"
    rule = GlobalTime.of(split["GT"])
    before = {"GT": "the same of what is before, by the same rule", "LTI": "the last one before that moment"}
    validation = before.get(rule.validation, "the last of some users before it")
    return (
        f"at one moment for all users, after {rule.quantile:.0%} of all interactions; the {rule.target} interaction of "
        f"a user after it is the test, {validation} the validation"
    )


def _longest_inputs(results: Results) -> list[str]:
    """Say how much of a history each model sees, where they differ."""
    lengths = {
        model: records[0]["config"].get("MAX_ITEM_LIST_LENGTH")
        for model, records in results.records.items()
        if records and get_model(records[0]["model"]).type == ModelType.SEQUENTIAL
    }
    if len(set(lengths.values())) < 2:
        return []
    return [
        "Longest input (MAX_ITEM_LIST_LENGTH): " + ", ".join(f"{name} {length}" for name, length in lengths.items())
    ]


def _on_windows(results: Results) -> list[str]:
    """Name RecBole's models that were trained in one pass over a window."""
    trained = [
        model
        for model in results.models
        if any(record["config"].get("training_rows") for record in results.records[model])
        and results.records[model][0]["model"] in CAUSAL_MODELS
    ]
    text = "in one pass over each user's windows (training_rows: user), not on RecBole's padded rows"
    return [f"{', '.join(trained)} trained {text}"] if trained else []


def _variants(variants: dict[str, dict[str, Any]]) -> list[str]:
    """Return in one line what each variant of a study sets."""
    texts = [
        f"{name} ({', '.join(f'{key}: {value}' for key, value in options.items()) or 'nothing'})"
        for name, options in variants.items()
    ]
    return [f"Variants, with what each sets: {'; '.join(texts)}"] if texts else []


def _partly_trained(results: Results) -> list[str]:
    """Name the models that did not see all of the training data once."""
    least = {model: min(map(epochs_trained, results.records[model])) for model in results.models}
    return [f"{model} trained for {share:.0%} of one epoch only" for model, share in least.items() if share < 1]


_NOTES = {
    "scores": "Test metrics: mean ± standard deviation over seeds; best bold, second underlined.",
    "also": "Test metrics of the same weights, which were selected by the validation metric named above.",
    "differences": "The interval resamples users and seeds (bootstrap, widened to the t distribution). p is of a "
    "paired t-test over users that counts the seeds as samples, too. Holm's correction is over the rivals of a metric. "
    "One seed cannot show how much seeds differ; use three or more.",
    "costs": "Medians over seeds. Seconds are training and validation; memory is the process's, without that of a GPU.",
    "variety": "coverage: share of the items that are recommended to anybody; popularity: how popular the recommended "
    "items are, 0 rarest to 1 most popular.",
}
_CAPTIONS = {
    "what is varied": "Test metrics by what the study varies: mean over seeds, and their spread.",
    "learning curves": "Validation against epochs and seconds; a line is a run.",
    "groups of users": "Test metric by length of the history and by popularity of the target, with 95 % intervals.",
    "length of the list": "Test metrics as the list of recommended items grows.",
    "variety": "Coverage and popularity of what is recommended.",
}
