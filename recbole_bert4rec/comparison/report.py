"""A comparison's report: one set of tables and pictures as Markdown, and the table of scores as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from recbole_bert4rec.comparison import tables
from recbole_bert4rec.comparison.facts import candidates, facts
from recbole_bert4rec.comparison.findings import LEVEL, Finding, distinct_metrics, find, headline
from recbole_bert4rec.comparison.render import (
    code,
    escape_cell,
    escape_markdown,
    escape_tex,
    markdown_rows,
    one_line,
    tex_rows,
)
from recbole_bert4rec.comparison.results import Results
from recbole_bert4rec.comparison.tables import Table
from recbole_bert4rec.system.files import atomic_write


def write_comparison(folder: Path, results: Results) -> dict[str, Path]:
    """Write runs.csv, the pictures, report.md and table.tex."""
    from recbole_bert4rec.comparison.figures import draw  # needs matplotlib

    findings = find(results)
    scores = tables.scores(results, findings)
    pictures = draw(results)
    for name, figure in pictures.items():
        with atomic_write(folder / f"{name}.png") as temporary:
            figure.savefig(temporary, dpi=120, format="png")
    with atomic_write(folder / "runs.csv") as temporary:
        table = results.table()
        table.assign(model=table["model"].map(escape_cell)).to_csv(temporary, index=False)
    texts = {
        "Markdown": ("report.md", _markdown(results, findings, scores, pictures)),
        "LaTeX": ("table.tex", _tex(results, scores)),
    }
    written = {"runs": folder / "runs.csv"}
    for kind, (name, lines) in texts.items():
        written[kind] = folder / name
        with atomic_write(written[kind]) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written


def _markdown(results: Results, findings: list[Finding], scores: Table, pictures: Iterable[str]) -> list[str]:
    """Return the lines of the report; ``pictures`` are names of files without their ending."""
    lines = [f"# {escape_markdown(', '.join(results.models))} on {escape_markdown(results.about['dataset'])}", ""]
    lines += [escape_markdown(headline(results, findings)), "", code(results.about["command"]), ""]
    lines += [f"- {escape_markdown(fact)}" for fact in facts(results)]
    for title, table, note in _sections(results, findings, scores):
        lines += ["", f"## {escape_markdown(title)}"] if title else []
        lines += ["", *markdown_rows(table), "", escape_markdown(note)]
    for name in pictures:
        lines += ["", f"![{_CAPTIONS[name]}]({name}.png)", "", _CAPTIONS[name]]
    return lines


def _tex(results: Results, scores: Table) -> list[str]:
    """Return the lines of the table of scores, below the facts as comments."""
    return [
        *(f"% {one_line(fact)}" for fact in facts(results)),
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_tex(_caption(results))}}}",
        rf"\label{{{_label(results)}}}",
        rf"\begin{{tabular}}{{ll{'r' * (len(scores.header) - 2)}}}",
        r"\toprule",
        *tex_rows(scores),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


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


def _sections(results: Results, findings: list[Finding], scores: Table) -> list[tuple[str, Table, str]]:
    """Return the tables, each with its title (the first has none) and how to read it."""
    sections = [("", scores, _NOTES["scores"] + _left_out(results.metrics))]
    for name in results.records[results.models[0]][0].get("also", {}):
        title = f"The same models under {name}"
        sections.append((title, tables.also_tested(results, name), _NOTES["also"]))
    if findings:
        sections.append(("Differences", tables.differences(results, findings), _NOTES["differences"]))
    sections.append(("Cost", tables.costs(results), _NOTES["costs"]))
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
    "what-is-varied": "Test metrics by what the study varies: mean and standard deviation over seeds; a dot is a run.",
    "learning-curves": "Validation against epochs and seconds; a line is a run.",
}
