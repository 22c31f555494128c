"""A comparison's report: one set of tables and pictures, written as Markdown, as LaTeX and as a page of HTML."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recbole_bert4rec.comparison import tables
from recbole_bert4rec.comparison.facts import candidates, facts
from recbole_bert4rec.comparison.findings import LEVEL, Finding, distinct_metrics, find, headline
from recbole_bert4rec.comparison.render import escape_cell, render
from recbole_bert4rec.comparison.results import Results
from recbole_bert4rec.comparison.tables import Table
from recbole_bert4rec.system.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
class ComparisonReport:
    """The whole content of a report, in any format.

    Attributes:
        title: models and data set.
        headline: the result in a sentence.
        command: as the user typed it.
        facts: data, protocol, machine and so on, a line each.
        sections: the tables.
        pictures: the figures.
    """

    title: str
    headline: str
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
        The written files, by their kind.
    """
    from recbole_bert4rec.comparison.figures import draw  # needs matplotlib

    findings = find(results)
    scores = tables.scores(results, findings)
    report = ComparisonReport(
        title=f"{', '.join(results.models)} on {results.about['dataset']}",
        headline=headline(results, findings),
        command=results.about["command"],
        facts=facts(results),
        sections=_sections(results, findings, scores),
        pictures=[_write_picture(folder, name, figure) for name, figure in draw(results).items()],
    )
    with atomic_write(folder / "runs.csv") as temporary:
        table = results.table()
        table.assign(model=table["model"].map(escape_cell)).to_csv(temporary, index=False)
    for_tex = {"table": scores, "caption": _caption(results), "label": _label(results), "level": LEVEL}
    texts = {
        "Markdown": ("report.md", render("report.md", report=report)),
        "LaTeX": ("table.tex", render("table.tex", report=report, **for_tex)),
        "page": ("report.html", render("report.html", report=report, title=report.title)),
    }
    written = {"runs": folder / "runs.csv"}
    for kind, (name, text) in texts.items():
        written[kind] = folder / name
        with atomic_write(written[kind]) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return written


def _caption(results: Results) -> str:
    """Return the caption of the table of scores in a paper."""
    seeds = len(results.about["seeds"])
    figures = f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
    rules = results.about["rules"]
    mode = rules["eval_args"]["mode"]["test"]
    seen = "left out" if rules["exclude_seen"] else "ranked"
    among = f"full ranking, seen items {seen}" if mode == "full" else candidates(mode)
    several = len(results.models) > 1
    order = " Best bold, second underlined." if several else ""
    first = results.reference if several else None
    stars = f" * differs from {first} (paired t-test, Holm, p < {LEVEL:g})." if first else ""
    return f"Test metrics on {results.about['dataset']}, {figures}; {among}.{order}{stars}"


def _label(results: Results) -> str:
    return "tab:" + re.sub(r"[^a-z0-9]+", "-", str(results.about["dataset"]).lower()).strip("-")


def _write_picture(folder: Path, name: str, figure: Figure) -> Picture:
    file = f"{name.replace(' ', '-')}.png"
    with atomic_write(folder / file) as temporary:
        figure.savefig(temporary, dpi=120, format="png")
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return Picture(_CAPTIONS[name], file, text.getvalue()[text.getvalue().index("<svg") :])


def _sections(results: Results, findings: list[Finding], scores: Table) -> list[Section]:
    sections = [Section("", scores, _NOTES["scores"] + _left_out(results.metrics))]
    for name in results.records[results.models[0]][0].get("also", {}):
        title = f"The same models under {name}"
        sections.append(Section(title, tables.also_tested(results, name), _NOTES["also"]))
    if findings:
        sections.append(Section("Differences", tables.differences(results, findings), _NOTES["differences"]))
    sections.append(Section("Cost", tables.costs(results), _NOTES["costs"]))
    return sections


def _left_out(metrics: list[str]) -> str:
    """Name the metrics that the tables leave out because they equal another one."""
    equal = [
        f"{other} is {metric}" + (f" / {other.partition('@')[2]}" if other.startswith("precision") else "")
        for metric, others in distinct_metrics(metrics).items()
        for other in others
    ]
    return f" With one target a user, {', '.join(equal)}." if equal else ""


_NOTES = {
    "scores": "Test metrics: mean ± standard deviation over seeds; best bold, second underlined; * differs from the "
    f"first model (paired t-test, Holm's correction, p < {LEVEL:g}).",
    "also": "Test metrics of the same weights, which were selected by the validation metric named above.",
    "differences": "The interval resamples users and seeds (bootstrap, as wide as the t distribution of the test). p "
    "is of a paired t-test over users that counts the seeds as samples, too. Holm's correction is over the rivals of a "
    "metric. One seed cannot show how much seeds differ; use three or more.",
    "costs": "Medians over seeds. Seconds are training and validation; memory is the process's, without that of a GPU.",
}
_CAPTIONS = {
    "what is varied": "Test metrics by what the study varies: mean and standard deviation over seeds; a dot is a run.",
    "learning curves": "Validation against epochs and seconds; a line is a run.",
    "groups of users": "Test metric by length of the history and by popularity of the target; bars are 95 % intervals.",
    "length of the list": "Test metrics as the list of recommended items grows.",
}
