"""Run run.py in a process of its own and read its record; write tables as CSV and Markdown with the machine named."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from pyarrow import csv as arrow_csv

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def run_record(work: Path, model: str, *flags: str) -> dict[str, Any]:
    """The JSON record of ``python run.py --model=MODEL FLAGS``, run in folder ``work``; reused if it is there.

    The record of an earlier call with the same flags is not made again, so a long comparison can be resumed.
    """
    work.mkdir(parents=True, exist_ok=True)
    folder = work / "-".join([model, *(flag.removeprefix("--") for flag in flags)]).translate(str.maketrans("/=", "__"))
    if not list(folder.glob("*.json")):
        print(f"running {model} {' '.join(flags)}", flush=True)
        options = [f"--model={model}", "--show_progress=False", f"--checkpoint_dir={folder}", *flags]
        with open(work / f"{folder.name}.log", "w") as log:
            subprocess.run(
                [sys.executable, str(ROOT / "run.py"), *options], cwd=work, stdout=log, stderr=log, check=True
            )
    (record,) = folder.glob("*.json")
    content: dict[str, Any] = json.loads(record.read_text())
    return content


def run_options(work: Path, name: str, options: dict[str, Any], model: str = "BERT4Rec", *flags: str) -> dict[str, Any]:
    """:func:`run_record` with options of a configuration file, ``work/NAME.yaml``, written for it."""
    work.mkdir(parents=True, exist_ok=True)
    (work / f"{name}.yaml").write_text(yaml.safe_dump(options))
    return run_record(work, model, f"--config_files={name}.yaml", *flags)


def machine(record: dict[str, Any]) -> str:
    """One line on what a record was made with."""
    hardware, versions = record["machine"], record["versions"]
    chip = hardware["gpu"] or f"{hardware['cores']} cores of {hardware['processor']}"
    return f"{chip}; Python {versions['python']}, torch {versions['torch']}, RecBole {versions['recbole']}"


def write_inter(path: Path, users: Any, items: Any, times: Any) -> None:
    """A RecBole atomic file of three columns of numbers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"user_id:token\titem_id:token\ttimestamp:float\n")
        options = arrow_csv.WriteOptions(include_header=False, delimiter="\t")
        arrow_csv.write_csv(pa.table([users, items, times], names=["user", "item", "time"]), file, options)


def command() -> str:
    """The command line of this process as a reader would type it: the folders of this machine are left out."""
    script, *arguments = sys.orig_argv[next(i for i, word in enumerate(sys.orig_argv) if word.endswith(".py")) :]
    for flag, said in (("--work", []), ("--environments", []), ("--data_path", ["--data_path", "DATA"])):
        if flag in arguments:
            place = arguments.index(flag)
            arguments[place : place + 2] = said
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *arguments])


def write_tables(name: str, where: str, rows: list[dict[str, Any]], notes: str = "") -> None:
    """Write ``results/NAME.csv`` and ``.md``, with the command of this process, and all tables into ``RESULTS.md``."""
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    header = list(rows[0])
    lines = [f"`{command()}`", "", f"Machine: {where}.", "", " | ".join(["", *header, ""]).strip()]
    lines += ["|" + "-|" * len(header)]
    lines += ["| " + " | ".join(str(row[column]) for column in header) + " |" for row in rows]
    text = "\n".join([*lines, "", notes]).strip() + "\n"
    (RESULTS / f"{name}.md").write_text(text)
    tables = [f"## {path.stem}\n\n{path.read_text()}" for path in sorted(RESULTS.glob("*.md"))]
    (RESULTS.parent / "RESULTS.md").write_text("\n".join(["# Benchmarks\n", *tables]))
    print(text)
