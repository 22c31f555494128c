"""A comparison as Markdown, as a LaTeX table like the paper's, and as one page of HTML that needs nothing else."""

from __future__ import annotations

import html
import io
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recbole_bert4rec.comparison.figures import draw
from recbole_bert4rec.comparison.results import Results, read_results
from recbole_bert4rec.comparison.significance import difference, holm
from recbole_bert4rec.files import atomic_write

Table = list[list[str]]
"""Rows of cells; the first row is the header."""


def write_comparison(folder: Path, runs: list[str], failed: dict[str, str]) -> dict[str, Path]:
    """Write the reports of the finished runs beside them.

    Args:
        folder: of the comparison.
        runs: names of the finished runs.
        failed: reasons of the others, by name.

    Returns:
        What was written, by name.
    """
    results = read_results(folder, runs, failed)
    figures = draw(results)
    pictures = {}
    for name, figure in figures.items():
        pictures[name] = folder / f"{name.replace(' ', '-')}.png"
        with atomic_write(pictures[name]) as temporary:
            figure.savefig(temporary, dpi=120, format="png")
    tests = _tests(results)
    with atomic_write(folder / "runs.csv") as temporary:
        results.table().to_csv(temporary, index=False)
    texts = {
        "Markdown": ("report.md", _markdown(results, tests, pictures)),
        "LaTeX": ("table.tex", _latex(results)),
        "page": ("report.html", _page(results, tests, {name: _svg(figure) for name, figure in figures.items()})),
    }
    written = {"runs": folder / "runs.csv"}
    for what, (name, text) in texts.items():
        written[what] = folder / name
        with atomic_write(written[what]) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return written


def _marked(values: list[float], mark: Callable[[str, int], str], texts: list[str]) -> list[str]:
    """Texts with the highest value marked as place 1 and the next as place 2."""
    distinct = sorted(set(values), reverse=True)
    return [mark(text, distinct.index(value) + 1) for value, text in zip(values, texts, strict=True)]


def _mean_text(values: Any) -> str:
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


def _scores(results: Results, mark: Callable[[str, int], str]) -> Table:
    """Models by metrics: mean and standard deviation over seeds."""
    columns = []
    for metric in results.metrics:
        runs = [list(results.scores(model, metric)) for model in results.models]
        columns.append(_marked([statistics.mean(own) for own in runs], mark, [_mean_text(own) for own in runs]))
    seeds = [str(len(results.records[model])) for model in results.models]
    header = ["model", "seeds", *results.metrics]
    return [header, *([model, *cells] for model, *cells in zip(results.models, seeds, *columns, strict=True))]


def _costs(results: Results) -> Table:
    """What a run of each model took, in the median over seeds."""

    def median(model: str, value: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median(value(record) for record in results.records[model])

    header = ["model", "epochs", "best epoch (from 0)", "seconds", "of which training", "peak memory, MB", "parameters"]
    rows = []
    for model in results.models:
        epochs = median(model, _epochs)
        best = median(model, lambda record: float(record["best_epoch"]))
        train = median(model, lambda record: sum(row["train_seconds"] for row in record["epochs"]))
        cells = [f"{median(model, lambda record: record['seconds']['train']):.1f}", f"{train:.1f}"]
        cells.append(f"{median(model, lambda record: record['peak_memory_mb']):,.0f}")
        cells.append(f"{median(model, lambda record: record['parameters']):,.0f}")
        rows.append([model, f"{epochs:.2f}" if epochs % 1 else f"{epochs:.0f}", f"{best:.0f}", *cells])
    return [header, *rows]


def _epochs(record: dict[str, Any]) -> float:
    """Epochs that were trained; the last may be cut short by a budget."""
    return len(record["epochs"]) - 1 + float(record.get("budget", {}).get("last_epoch_share", 1.0))


def _varieties(results: Results) -> Table:
    names = list(results.records[results.models[0]][0]["variety"])
    rows = [
        [model, *(_mean_text([record["variety"][name] for record in results.records[model]]) for name in names)]
        for model in results.models
    ]
    return [["model", *names], *rows]


def _tests(results: Results) -> Table:
    """The first model against each other one: difference, interval, p, and p corrected for the number of rivals."""
    first, rows = results.reference, []
    rivals = [model for model in results.models if model != first] if first else []
    for metric in _distinct(results.metrics):
        found = [difference(results.by_user(str(first), metric), results.by_user(rival, metric)) for rival in rivals]
        corrected = holm([one.p for one in found])
        for rival, one, p in zip(rivals, found, corrected, strict=True):
            best = " (best rival)" if rival == results.best_rival(metric) else ""
            interval = f"{one.low:+.4f} to {one.high:+.4f}"
            rows.append([metric, f"{first} − {rival}{best}", f"{one.mean:+.4f}", interval, _p(one.p), _p(p)])
    return [["metric", "difference", "mean", "95 % interval", "p", "p (Holm)"], *rows]


def _distinct(metrics: list[str]) -> list[str]:
    """Without those that say the same, up to a factor, as hit: there is one target a user."""
    same = {"recall", "precision"}
    return [m for m in metrics if m.split("@")[0] not in same or f"hit@{m.split('@')[1]}" not in metrics]


def _p(value: float) -> str:
    return "< .0001" if value < 1e-4 else f"{value:.4f}"


def _protocol(results: Results) -> list[str]:
    """What one must know to read the tables, a line each."""
    about, rules = results.about, results.about["rules"]
    valid_mode, mode = (rules["eval_args"]["mode"][phase] for phase in ("valid", "test"))
    among = "all items" if mode == "full" else f"{mode[3:]} candidates ({mode}), the same for every model"
    seen = "left out" if rules["exclude_seen"] else "ranked like all others (RecBole's protocol)"
    dropped = about["dropped"]
    ended = (
        f"each run trained for {about['budget']:g} s at most, validation included; the best epoch by validation counts"
        if about["budget"]
        else "each run ended by its own early stopping on validation, or after its `epochs`"
    )
    records = [record for own in results.records.values() for record in own]
    machine, versions = records[0]["machine"], records[0]["versions"]
    commits = sorted({record["commit"] for record in records if record.get("commit")})
    return [
        f"Data: {about['dataset']}, {about['users']:,} users, {about['items']:,} items, "
        f"{about['interactions']:,} interactions"
        + (f"; {dropped:,} users with fewer than 4 interactions left out for all models" if dropped else ""),
        "Split: the last interaction of a user is the test, the one before it the validation; the rows of all models "
        "were proven equal before training",
        f"Ranking: the target among {among}; seen items {seen}"
        + ("" if valid_mode == mode else f"; in validation {valid_mode}"),
        f"Selection: by validation {results.main_metric}; {ended}; every run tested once; seeds "
        f"{', '.join(map(str, about['seeds']))}",
        f"Machine: {machine['processor']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"GPU {machine['gpu'] or 'none'}; "
        + ", ".join(f"{name} {versions[name]}" for name in ("recbole_bert4rec", "recbole", "torch") if name in versions)
        + (f"; git commit {', '.join(commits)}" if commits else ""),
        *_variants(about.get("variants", {})),
        *_unfinished(results),
        *(f"Failed: {name}: {reason}" for name, reason in results.failed.items()),
    ]


def _variants(variants: dict[str, dict[str, Any]]) -> list[str]:
    """What makes the variants of a study, in a line."""
    said = [f"{name} ({_options(own) or 'nothing'})" for name, own in variants.items()]
    return [f"Variants, with what each sets: {'; '.join(said)}"] if said else []


def _options(own: dict[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in own.items())


def _unfinished(results: Results) -> list[str]:
    """Models that did not see all of the training data once."""
    least = {model: min(map(_epochs, results.records[model])) for model in results.models}
    return [f"{model} trained for {share:.0%} of one epoch only" for model, share in least.items() if share < 1]


_NOTES = {
    "scores": "Test metrics: mean ± standard deviation over seeds; best bold, second underlined.",
    "tests": "The interval resamples users and seeds (bootstrap, widened to the t distribution); p is of a paired "
    "t-test over users that counts the seeds as samples, too; Holm's correction is over the rivals of a metric. "
    "With one seed neither knows how much seeds differ.",
    "costs": "Medians over seeds; seconds are training and validation; memory is the process's, without that of a GPU.",
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


def _title(results: Results) -> str:
    return f"{', '.join(results.models)} on {results.about['dataset']}"


def _markdown(results: Results, tests: Table, pictures: dict[str, Path]) -> str:
    def mark(text: str, place: int) -> str:
        return {1: f"**{text}**", 2: f"<u>{text}</u>"}.get(place, text)

    def table(rows: Table) -> str:
        lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
        return "\n".join([lines[0], "|" + "-|" * len(rows[0]), *lines[1:]])

    parts = [f"# {_title(results)}", f"`{results.about['command']}`"]
    parts.append("\n".join(f"- {line}" for line in _protocol(results)))
    parts += [table(_scores(results, mark)), _NOTES["scores"]]
    if len(tests) > 1:
        parts += ["## Differences", table(tests), _NOTES["tests"]]
    parts += ["## Cost", table(_costs(results)), _NOTES["costs"]]
    if results.has_variety:
        parts += ["## Variety", table(_varieties(results)), _NOTES["variety"]]
    parts += [f"![{_CAPTIONS[name]}]({path.name})\n\n{_CAPTIONS[name]}" for name, path in pictures.items()]
    return "\n\n".join(parts) + "\n"


def _latex(results: Results) -> str:
    """Metrics by models, with the first model's improvement over the best other one, as in the paper's Table 2."""

    def mark(text: str, place: int) -> str:
        return {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(place, text)

    lines = []
    for metric in results.metrics:
        means = [float(results.scores(model, metric).mean()) for model in results.models]
        cells = _marked(means, mark, [f"{mean:.4f}" for mean in means])
        best = max(means[1:], default=0.0) if results.reference else 0.0
        cells.append(rf"{100 * (means[0] / best - 1):+.2f}\%" if best else "--")
        lines.append(" & ".join([_escaped(metric), *cells]) + r" \\")
    header = " & ".join(["Metric", *map(_escaped, results.models), "Improv."]) + r" \\"
    notes = [f"% {line}" for line in _protocol(results)]
    notes.append("% Means over the seeds; Improv.: of the first model over the best other one")
    columns = "l" + "r" * (len(results.models) + 1)
    table = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule", *lines, r"\bottomrule"]
    return "\n".join([*notes, r"% needs \usepackage{booktabs}", *table, r"\end{tabular}", ""])


_TEX = {character: "\\" + character for character in "_&%#${}"}
_TEX |= {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}


def _escaped(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in text)


def _page(results: Results, tests: Table, drawings: dict[str, str]) -> str:
    def mark(text: str, place: int) -> str:
        return {1: f"<b>{text}</b>", 2: f"<u>{text}</u>"}.get(place, text)

    def table(rows: Table, marked: int | None = None) -> str:
        def cells(row: list[str], tag: str) -> str:
            shown = [cell if marked is not None and n >= marked else html.escape(cell) for n, cell in enumerate(row)]
            return "".join(f"<{tag}>{cell}</{tag}>" for cell in shown)

        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows[1:])
        return f"<table><thead><tr>{cells(rows[0], 'th')}</tr></thead><tbody>{body}</tbody></table>"

    title = html.escape(_title(results))
    parts = [f"<h1>{title}</h1>", f"<p><code>{html.escape(results.about['command'])}</code></p>"]
    parts.append("<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in _protocol(results)) + "</ul>")
    parts += [table(_scores(results, mark), marked=2), f"<p>{_NOTES['scores']}</p>"]
    if len(tests) > 1:
        parts += ["<h2>Differences</h2>", table(tests), f"<p>{_NOTES['tests']}</p>"]
    parts += ["<h2>Cost</h2>", table(_costs(results)), f"<p>{_NOTES['costs']}</p>"]
    if results.has_variety:
        parts += ["<h2>Variety</h2>", table(_varieties(results)), f"<p>{_NOTES['variety']}</p>"]
    for name, drawing in drawings.items():
        caption = html.escape(_CAPTIONS[name])
        parts.append(f"<figure>{drawing}<figcaption>{caption}</figcaption></figure>")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


_STYLE = (
    "body{font-family:sans-serif;max-width:1040px;margin:2em auto;padding:0 1em;color:#111;line-height:1.4}"
    "table{border-collapse:collapse;border-top:2px solid;border-bottom:2px solid;display:block;overflow-x:auto;"
    "font-size:.85em;font-variant-numeric:tabular-nums;width:max-content;max-width:100%}"
    "th{border-bottom:1px solid}th,td{padding:.25em .7em;text-align:right;white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}figure{margin:2em 0;break-inside:avoid}"
    "figure svg{max-width:100%;height:auto}figcaption{color:#444}code{overflow-wrap:anywhere}"
)


def _svg(figure: Any) -> str:
    """A figure as an element of a page."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
