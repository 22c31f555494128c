"""Run run.py in a process of its own and read its record; write tables as CSV and Markdown with the machine named."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import statistics
import subprocess
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def run_options(work: Path, name: str, options: dict[str, Any], model: str, *flags: str) -> dict[str, Any]:
    """Run a model with options of a configuration file in folder ``work/NAME`` and return the run's JSON record.

    The record of an earlier call with the same options is not made again, so a long comparison can be resumed. If the
    run fails, this process ends with the last lines of its log.
    """
    folder, text = work / name, yaml.safe_dump({"model": model, **options}) + "".join(f"# {flag}\n" for flag in flags)
    done = folder / "done"  # a run that was stopped left a record, too
    if not (done.exists() and done.read_text() == text):
        print(f"running {model}: {name}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "options.yaml").write_text(text)
        fixed = ["--config_files=options.yaml", "--show_progress=False", "--checkpoint_dir=."]
        words = [sys.executable, str(ROOT / "run.py"), *fixed, *flags]
        with open(folder / "run.log", "w") as log:
            status = subprocess.run(words, cwd=folder, stdout=log, stderr=log, check=False).returncode
        if status:
            last_lines = "\n".join((folder / "run.log").read_text().splitlines()[-5:])
            sys.exit(f"{last_lines}\nerror: run {name} ended with status {status}; its log is {folder / 'run.log'}")
        done.write_text(text)
    (record,) = folder.glob("*.json")
    content: dict[str, Any] = json.loads(record.read_text())
    return content


def run_records(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the records of the runs of a comparison, by their names."""
    names = json.loads((folder / "comparison.json").read_text())["runs"].values()
    return {name: json.loads((folder / "runs" / f"{name}.json").read_text()) for of_model in names for name in of_model}


def best_of(work: Callable[[], object], times: int) -> float:
    """Return the fewest seconds that some work takes, of so many times."""
    return min(timeit.repeat(work, number=1, repeat=times))


def machine(record: dict[str, Any]) -> str:
    """One line on what a record was made with."""
    hardware, versions = record["machine"], record["versions"]
    chip = hardware["gpu"] or f"{hardware['cores']} cores of {hardware['processor']}"
    return f"{chip}; Python {versions['python']}, torch {versions['torch']}, RecBole {versions['recbole']}"


def machines(records: list[dict[str, Any]]) -> str:
    """One line on all that records were made with."""
    return "; and ".join(sorted({machine(record) for record in records}))


def command() -> str:
    """The command line of this process as a reader would type it: the folders of this machine are left out."""
    script, *arguments = sys.orig_argv[next(i for i, word in enumerate(sys.orig_argv) if word.endswith(".py")) :]
    said = {"--data_path": "DATA", "--checkpoint": "FILE", "--other": "FILE", "--input": "FILE"}
    kept, rest = list[str](), iter(arguments)
    for argument in rest:
        flag, with_value, _ = argument.partition("=")
        if flag in ("--work", "--environments", *said):
            if not with_value:
                next(rest)
            kept += [flag, said[flag]] if flag in said else []
        else:
            kept.append(argument)
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *kept])


def write_tables(name: str, where: str, rows: list[dict[str, Any]], notes: str = "") -> None:
    """Write ``results/NAME.csv`` and ``.md``, with the command of this process."""
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    lines = [f"`{command()}`", "", f"Machine: {where}.", "", *table_lines(rows), "", notes]
    write_page(name, "\n".join(lines).strip() + "\n")


def with_deviation(values: list[float]) -> str:
    """Return mean and standard deviation of shares, such as ``.0619 ± .0008``; of one value that alone."""
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}".replace("0.", ".")


def table_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table."""
    header = list(rows[0])
    lines = [f"| {' | '.join(header)} |", "|" + "-|" * len(header)]
    return lines + ["| " + " | ".join(str(row[column]) for column in header) + " |" for row in rows]


def write_page(name: str, text: str) -> None:
    """Write ``results/NAME.md``."""
    (RESULTS / f"{name}.md").write_text(text)
    print(text)
