"""A comparison's report: tables and pictures as Markdown, the tables of scores as LaTeX, and a row a run as CSV."""

from __future__ import annotations

import html
import re
import statistics
from collections.abc import Callable, Collection
from pathlib import Path

import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from recbole_bert4rec.experiments.results import OF_RANKS, Results
from recbole_bert4rec.experiments.significance import against
from recbole_bert4rec.system.files import atomic_write
from recbole_bert4rec.training.screen import LEAVE_ONE_OUT

LEVEL = 0.05
"""Differences with a higher p are not significant."""
_PACKAGES = ("recbole_bert4rec", "recbole", "torch")
_CAPTIONS = {
    "what-is-varied": "Test metrics by what the study varies: mean and standard deviation over seeds; a dot is a run.",
    "learning-curves": "Validation against epochs and seconds; a line is a run.",
    "differences": "The first model minus each other one, with 95 % intervals.",
}
_HOW_MARKED = (
    "mean ± standard deviation over seeds; best bold, second underlined; * differs from the first model (paired "
    f"t-test, Holm's correction, p < {LEVEL:g})"
)
_HOW_SURE = (
    "Interval and p are of a paired t-test over users that counts the seeds as samples, too. Holm's correction is over "
    "the rivals of a metric. One seed cannot show how much seeds differ; use three or more."
)
_HOW_COSTLY = "Medians over seeds. Seconds are training and validation; memory is the process's, without that of a GPU."


def write_report(folder: Path, results: Results) -> dict[str, Path]:
    """Write runs.csv, the pictures, report.md and table.tex."""
    with rc_context({"text.parse_math": False}):  # a model's name may hold dollar signs
        pictures = {"what-is-varied": _axis(results)} if results.about["axis"] else {}
        pictures["learning-curves"] = _curves(results)
        if results.reference:
            pictures["differences"] = _intervals(results, results.reference)
        for name, figure in pictures.items():
            with atomic_write(folder / f"{name}.png") as temporary:
                figure.savefig(temporary, dpi=120, format="png")
    runs = results.table()
    runs["model"] = runs["model"].str.replace(r"^(?=[=+@\t\r-])", "'", regex=True)  # else a formula for a spreadsheet
    scores = {protocol: _scores(results, protocol) for protocol in results.ranks}
    texts = {
        "runs": ("runs.csv", runs.to_csv(index=False)),
        "Markdown": ("report.md", _markdown(results, scores, [*pictures])),
        "LaTeX": ("table.tex", _tex(results, scores)),
    }
    for name, text in texts.values():
        with atomic_write(folder / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return {kind: folder / name for kind, (name, _) in texts.items()}


def _markdown(results: Results, scores: dict[str, pd.DataFrame], pictures: list[str]) -> str:
    """Return the report; ``pictures`` are names of files without their ending."""
    about, first = results.about, results.reference
    title = f"# {_for_markdown(', '.join(results.records))} on {_for_markdown(about['dataset'])}"
    facts = "\n".join(f"- {_for_markdown(fact)}" for fact in _facts(results))
    parts = [title, _for_markdown(_headline(results)), f"    {_one_line(about['command'])}", facts]
    for protocol, table in scores.items():
        parts += [f"## The same weights under {_for_markdown(protocol)}"] if protocol else []
        parts += [_markdown_table(table)]
    parts.append(_for_markdown(f"Test metrics: {_HOW_MARKED}."))
    if first:
        parts += ["## Differences", _markdown_table(_differences(results, first), texts=2), _HOW_SURE]
    parts += ["## Cost", _markdown_table(_costs(results)), _HOW_COSTLY]
    for name in pictures:
        parts += [f"![{_CAPTIONS[name]}]({name}.png)", _CAPTIONS[name]]
    return "\n\n".join(parts) + "\n"


def _tex(results: Results, scores: dict[str, pd.DataFrame]) -> str:
    """Return a table of scores for each protocol, below the facts as comments."""
    dataset = results.about["dataset"]
    text = "".join(f"% {_one_line(line)}\n" for line in [*_facts(results), r"needs \usepackage{booktabs}"])
    for protocol, table in scores.items():
        among = f"under {protocol}" if protocol else f"the target among {_candidates(results)}"
        formatted = _formatted(table, _for_tex, r"\textbf{{{}}}", r"\underline{{{}}}", "$^{*}$")
        text += formatted.style.hide(axis="index").to_latex(
            hrules=True,
            position_float="centering",
            column_format="ll" + "r" * (table.shape[1] - 2),
            caption=_for_tex(f"Test metrics on {dataset}, {among}: {_HOW_MARKED}."),
            label="tab:" + re.sub(r"[^a-z0-9]+", "-", f"{dataset} {protocol}".lower()).strip("-"),
        )
    return text


def _headline(results: Results) -> str:
    """Say which model is ahead, by how much, and how sure that is."""
    metric, first = results.main_metric, results.reference
    means = {model: statistics.mean(results.scores(model, metric)) for model in results.records}
    rival = max((model for model in means if model != first), key=means.__getitem__)
    if first is None:
        return f"{rival}: test {metric} {means[rival]:.4f}."
    gap, low, high, _, p = against(results, first, metric)[rival]
    ahead, behind = (first, rival) if gap >= 0 else (rival, first)
    low, high = (low, high) if gap >= 0 else (-high, -low)
    sure = "significant" if p < LEVEL else "not significant"
    return (
        f"{ahead} is ahead of {behind} by {abs(gap):.4f} test {metric}; 95 % interval {low:+.4f} to {high:+.4f}, "
        f"p {p_text(p)} after Holm's correction: {sure} at {LEVEL:.0%}."
    )


def _facts(results: Results) -> list[str]:
    """Return what a reader of the tables must know, as lines of ``key: value``."""
    about, rules = results.about, results.about["rules"]
    records = [record for of_model in results.records.values() for record in of_model]
    machine, versions = records[0]["machine"], records[0]["versions"]
    split, mode = rules["eval_args"]["split"], rules["eval_args"]["mode"]
    facts = {
        "Data": f"{about['dataset']}, {about['users']:,} users, {about['items']:,} items, "
        f"{about['interactions']:,} interactions",
        "Left out for all models": about["dropped"] and f"{about['dropped']:,} users with fewer than 4 interactions",
        "Split": split if "GT" in split else LEAVE_ONE_OUT,
        "Parts": about["parts"],
        "Rows": "those of all models were proven equal before training",
        "Ranking": f"the target among {_candidates(results)}",
        "Ranking in validation": mode["valid"] != mode["test"] and mode["valid"],
        "Selection": f"by validation {results.main_metric}; every run tested once",
        "Seeds": ", ".join(map(str, about["seeds"])),
        "Budget": about["budget"] and f"{about['budget']:g} s a run, and the step or validation under way",
        "Machine": f"{machine['processor']}, cores {machine['cores']}, threads {machine['threads']}, "
        f"GPU {machine['gpu'] or 'none'}",
        "Versions": ", ".join(f"{name} {versions[name]}" for name in _PACKAGES if name in versions),
        "Git commit": ", ".join(sorted({record["commit"] for record in records if record.get("commit")})),
    }
    for variant, options in about["variants"].items():
        facts[f"Variant {variant}"] = ", ".join(f"{key}: {value}" for key, value in options.items()) or "nothing set"
    facts |= {f"Failed: {name}": reason for name, reason in about["failed"].items()}
    return [f"{key}: {value}" for key, value in facts.items() if value]


def _candidates(results: Results) -> str:
    """Say among which items the targets are ranked."""
    rules = results.about["rules"]
    mode = rules["eval_args"]["mode"]["test"]
    if mode == "full":
        seen = "left out" if rules["exclude_seen"] else "ranked like all others (RecBole's protocol)"
        return f"all items, seen items {seen}"
    return f"{mode[3:]} candidates ({mode}), none of them an item of the user, the same for every model"


def _scores(results: Results, protocol: str) -> pd.DataFrame:
    """Return mean and standard deviation over seeds, models by metrics; a cell is as :func:`_formatted` takes it."""
    models, first = [*results.records], results.reference
    table = pd.DataFrame({"model": models, "seeds": [str(len(results.records[model])) for model in models]})
    for metric in results.metrics(protocol):
        runs = [results.scores(model, metric, protocol) for model in models]
        means = pd.Series([statistics.mean(of_model) for of_model in runs])
        places = means.rank(method="dense", ascending=False) * (len(models) > 1)
        gaps = against(results, first, metric, protocol) if first and metric.partition("@")[0] in OF_RANKS else {}
        differs = [model in gaps and gaps[model].corrected < LEVEL for model in models]
        table[metric] = pd.Series([*zip(map(_mean_text, runs), places, differs, strict=True)])
    return table


def _mean_text(values: Collection[float]) -> str:
    """Format the mean of some runs and, of two or more, their standard deviation."""
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


def _differences(results: Results, first: str) -> pd.DataFrame:
    """Return the first model against each other one: difference, interval, p, and p corrected by Holm."""
    rows = []
    for metric in results.metrics():
        for rival, gap in against(results, first, metric).items():
            texts = (f"{gap.mean:+.4f}", f"{gap.low:+.4f} to {gap.high:+.4f}", p_text(gap.p), p_text(gap.corrected))
            rows.append([metric, f"{first} − {rival}", *texts])
    return pd.DataFrame(rows, columns=["metric", "difference", "mean", "95 % interval", "p", "p (Holm)"])


def p_text(value: float) -> str:
    """Format a p for tables."""
    return "< .0001" if value < 1e-4 else f"{value:.4f}"


def _costs(results: Results) -> pd.DataFrame:
    """Return the cost of each model's runs, in the median over seeds."""
    columns = {
        "epochs_trained": ("epochs", 2),
        "best_epoch": ("best epoch (from 0)", 0),
        "seconds": ("seconds", 1),
        "training_seconds": ("of which training", 1),
        "peak_memory_mb": ("peak memory, MB", 0),
        "parameters": ("parameters", 0),
    }
    medians = results.table().groupby("model", sort=False)[[*columns]].median()
    table = pd.DataFrame({"model": medians.index})
    for name, (title, decimals) in columns.items():
        table[title] = [f"{value:,.{decimals}f}".removesuffix(".00") for value in medians[name]]
    return table


def table_for_screen(results: Results) -> str:
    """Return the test metrics of all models: mean, and standard deviation over seeds."""
    table = _formatted(_scores(results, ""), _one_line, "{}", "{}", "")
    return str(table.to_markdown(index=False, disable_numparse=True, tablefmt="simple"))


def _one_line(text: object) -> str:
    """Replace every run of white space, line breaks included, by one space."""
    return " ".join(str(text).split())


def _for_markdown(text: object) -> str:
    """Escape a text for Markdown: tags, links, emphasis and cells of a table."""
    return re.sub(r"[\\`*\[\]|]", r"\\\g<0>", html.escape(_one_line(text), quote=False))


def _for_tex(text: object) -> str:
    """Escape a text for LaTeX."""
    words = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    words |= {"±": r"$\pm$", "<": "$<$", ">": "$>$"}
    return "".join(words.get(sign, f"\\{sign}" if sign in "_&%#${}" else sign) for sign in _one_line(text))


def _formatted(table: pd.DataFrame, escape: Callable[[object], str], best: str, second: str, star: str) -> pd.DataFrame:
    """Return a table in a format; a cell is a text, or a text with its place and whether it differs from the first."""

    def shown(cell: str | tuple[str, float, bool]) -> str:
        text, place, differs = (cell, 0, False) if isinstance(cell, str) else cell
        return {1: best, 2: second}.get(int(place), "{}").format(escape(text)) + (star if differs else "")

    return table.map(shown).rename(columns=escape)


def _markdown_table(table: pd.DataFrame, texts: int = 1) -> str:
    """Return a table in Markdown; so many columns from the left hold words, the others numbers."""
    formatted = _formatted(table, _for_markdown, "**{}**", "<u>{}</u>", r"\*")
    sides = ["left"] * texts + ["right"] * (table.shape[1] - texts)
    return str(formatted.to_markdown(index=False, disable_numparse=True, colalign=sides))


def _axis(results: Results) -> Figure:
    """Draw test metrics along the option that a study varies, as the paper's Figures 3 and 4."""
    runs, metrics, figure = results.table(), results.metrics(), Figure()
    axes = figure.subplots()
    for metric in [metric for metric in metrics if metric.endswith("@10")][:2] or metrics[:2]:
        of_value = runs.groupby("varied")[f"test {metric}"]
        places = [f"{value:g}" for value in of_value.groups]  # evenly, as the paper's powers of 2
        axes.errorbar(places, of_value.mean(), of_value.std().fillna(0.0), label=metric)
        axes.plot([f"{value:g}" for value in runs["varied"]], runs[f"test {metric}"], ".")
    axes.set(xlabel=results.about["varied"], ylabel="test")
    axes.legend()
    return figure


def _curves(results: Results) -> Figure:
    """Draw validation against epochs and against seconds; a line is a run."""
    metric, figure = results.main_metric, Figure(figsize=(10, 5))
    sides = figure.subplots(1, 2, sharey=True)
    for number, (model, records) in enumerate(results.records.items()):
        for record in records:
            rows = [row for row in record["epochs"] if (row.get("valid") or {}).get(metric) is not None]
            scores = [row["valid"][metric] for row in rows]
            style = {"color": f"C{number}", "label": model if record is records[0] else "_"}  # _ is in no legend
            sides[0].plot([row["epoch"] + 1 for row in rows], scores, ".-", **style)
            sides[1].plot([row["at_second"] for row in rows], scores, ".-", **style)
    sides[0].set(xscale="log", xlabel="epochs trained", ylabel=f"validation {metric}")
    sides[1].set(xscale="log", xlabel="seconds of training and validation")
    sides[1].legend()
    return figure


def _intervals(results: Results, first: str) -> Figure:
    """Draw the first model minus each other one in the main metric, with the 95 % interval."""
    gaps = against(results, first, results.main_metric)
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    for rival, gap in reversed(gaps.items()):
        axes.errorbar(gap.mean, rival, xerr=gap.high - gap.mean, fmt="o", color="C0")
    axes.axvline(0.0, color="black")
    axes.set(xlabel=f"{first} minus the model, test {results.main_metric}")
    return figure
