"""Runs the same commands in two trees and lists what differs in what they leave: losses, metrics, tables, files.

    python tools/guard/twin.py BEFORE AFTER --work=FOLDER [--only=NAME,NAME]

BEFORE and AFTER are checkouts, each with an environment in .venv (or named by --before_python, --after_python). Each
command of cases.py runs in a folder of its own, with one thread and with MKL's products. What a row of decisions.md
changes stands in expected.txt: `CASE FILE KEY-PATTERN  reason`. The exit code is 1 if anything else differs.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from cases import CASES, PRELUDE  # noqa: E402

LIMIT_S = 240
"""Seconds that a case may take."""
VARIES = re.compile(
    r"(^|\.)(at_second|seconds|(train|valid)_seconds|seconds\.\w+|peak_memory_mb|checkpoint|commit|ended|made_at|data_path|"
    r"warm_start|port|file|log|changed|sha256\.model\.onnx|files\.[\d.]+)$"
)
"""Keys of records, and columns of tables, whose values differ between two runs of one tree."""
DRAWN = re.compile(r"-?[A-Z][a-z]{2}-\d\d-\d{4}_\d\d-\d\d-\d\d(-[0-9a-f]+(?!\w))*|-[0-9a-f]{8}(?=[./])")
"""What is drawn in names of files: dates, digests, process numbers."""
VARYING = re.compile(DRAWN.pattern + r"|\d{4}-\d\d-\d\d[T ][\d:.+Z-]+|[\d.]+ (s|min|MB)\b|/\S+/(?=\w)")
"""The same and more in lines of text: times, seconds, memory, folders."""
MEASURED = re.compile(r"Machine: |\| (a window of each user|a padded row a label|each interaction) \|")
"""Lines of a report with the commit, or with seconds and memory."""


def main() -> int:
    """Compare two trees."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for what the commands write")
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--before_python", type=Path)
    parser.add_argument("--after_python", type=Path)
    parser.add_argument("--keep", action="store_true", help="compare with what BEFORE left in --work for these scripts")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(CASES)
    trees = {
        side: (tree.resolve(), (python or tree / ".venv/bin/python").absolute())
        for side, tree, python in (
            ("before", options.before, options.before_python),
            ("after", options.after, options.after_python),
        )
    }
    work = options.work.resolve()
    make_data(work / "data", trees["before"][1])
    began = time.perf_counter()
    of_side = {"before": kept if options.keep else leave, "after": leave}
    with ThreadPoolExecutor(2) as pool:  # two commands side by side, one thread each
        left = {
            (name, side): pool.submit(of_side[side], name, tree, python, work / side / name, work / "data")
            for name in names
            for side, (tree, python) in trees.items()
        }
        found = {key: future.result() for key, future in left.items()}
    expected = read_expected(HERE / "expected.txt")
    differences = []
    for name in names:
        for file, key, one, other in compare(found[name, "before"], found[name, "after"]):
            row = next((row for row in expected if all(map(fnmatch.fnmatch, (name, file, key), row[:3]))), None)
            differences.append((name, file, key, one, other, row[3] if row else ""))
    for name, file, key, one, other, reason in differences:
        print(f"{name:18} {file:32} {key:32} {short(one):>22} {short(other):>22}  {reason}")
    unexplained = sum(not row[-1] for row in differences)
    for name in names:
        if code := found[name, "before"]["screen", "exit code"]:
            print(f"{name}: exit code {code} in BEFORE; see {work / 'before' / name / 'screen.txt'}")
            unexplained += 1
    values = sum(len(content) for content in (found[name, "before"] for name in names))
    print(
        f"{len(names)} cases, {values} values, {len(differences)} differ, {unexplained} without a reason, "
        f"{time.perf_counter() - began:.0f} s"
    )
    return int(unexplained > 0)


def make_data(folder: Path, python: Path) -> None:
    """Make the logs, once."""
    if not (folder / "made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run([python, HERE / "data.py", folder], check=True)
        (folder / "made").touch()


def leave(name: str, tree: Path, python: Path, folder: Path, data: Path) -> dict[tuple[str, str], Any]:
    """Run a case in an empty folder; return what it leaves, by file and key."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(data, folder)
    environment = {
        **{key: os.environ[key] for key in ("PATH", "HOME", "LANG", "LC_ALL") if key in os.environ},
        "PY": str(python),
        "TREE": str(tree),
        "GUARD": str(HERE),
        "PYTHONPATH": f"{HERE / 'site'}:{tree}",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }
    return content(name, executed(f"{PRELUDE}\n{CASES[name]}", folder, environment, LIMIT_S), folder, data)


def kept(name: str, tree: Path, python: Path, folder: Path, data: Path) -> dict[tuple[str, str], Any]:
    """Return what an earlier run of the same script in the same tree left; run it where there is none."""
    record, made_from = folder.with_suffix(".ran"), of(name, tree, python)
    before, code = json.loads(record.read_text()) if record.exists() else ("", 0)
    if before == made_from:
        return content(name, code, folder, data)
    values = leave(name, tree, python, folder, data)
    record.write_text(json.dumps([made_from, values["screen", "exit code"]]))
    return values


def of(name: str, tree: Path, python: Path) -> str:
    """Return all that a case's outcome depends on: script, programs, commit and changes of the tree, environment."""
    git = ["git", "-C", str(tree)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    changes = subprocess.run([*git, "diff", "HEAD"], capture_output=True, text=True, check=True).stdout
    words = f"{PRELUDE}{CASES[name]} data.py sitecustomize.py"
    programs = [path.read_text() for path in sorted(HERE.rglob("*.py")) if path.name in words]
    return "\n".join([str(python), commit, changes, words, *programs])


def content(name: str, code: int, folder: Path, data: Path) -> dict[tuple[str, str], Any]:
    """Return what a case left in its folder, by file and key."""
    values: dict[tuple[str, str], Any] = {("screen", "exit code"): code}
    for path in sorted(folder.rglob("*")):
        local = path.relative_to(folder)
        if (
            not path.is_file()
            or (data / local).exists()
            or path.parts[len(folder.parts)] in ("log_tensorboard", "screen.txt")
        ):
            continue
        if path.suffix == ".out" or name != "bad-inputs":
            values[DRAWN.sub("", str(local)), "there"] = True
            values |= {(DRAWN.sub("", str(local)), key): value for key, value in values_of(path)}
    return values


def executed(script: str, folder: Path, environment: dict[str, str], limit_s: int) -> int:
    """Run a script of the shell and append what it prints to screen.txt; return its exit code, 124 if it was ended."""
    with (folder / "screen.txt").open("a") as screen:
        return subprocess.run(
            ["timeout", str(limit_s), "bash", "-c", script],
            cwd=folder,
            env=environment,
            stdout=screen,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode


def values_of(path: Path) -> list[tuple[str, Any]]:
    """Return the values of a file that two runs of one tree have in common."""
    try:
        if path.suffix == ".json":
            return list(flat(json.loads(path.read_text("utf-8")), ""))
        if path.suffix == ".jsonl":
            lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            return list(flat(lines, ""))
        if path.suffix == ".out":
            return list(answers_in(path.read_text("utf-8").splitlines()))
        if path.suffix in (".md", ".tex", ".yaml", ".result"):
            lines = path.read_text("utf-8").splitlines()
            return [
                (f"line {number}", VARYING.sub("", line))
                for number, line in enumerate(lines, 1)
                if not MEASURED.search(line)
            ]
        if path.suffix == ".parquet":
            return columns_of(pd.read_parquet(path))
        if path.suffix in (".csv", ".inter"):
            return columns_of(pd.read_csv(path, sep="\t" if path.suffix == ".inter" else ",", dtype=str))
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                return [(name, hashlib.sha256(array.tobytes()).hexdigest()) for name, array in arrays.items()]
        if path.suffix in (".int32", ".int64", ".float64", ".arrow"):
            return [("digest", hashlib.sha256(path.read_bytes()).hexdigest())]
    except (ValueError, OSError) as error:  # half of a file, or one that was written to be refused
        return [("unreadable", type(error).__name__)]
    return []


def answers_in(lines: list[str]) -> Any:
    """Yield what a case printed: an answer by its question, or by the number of the line where there is none."""
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        question, bar, answer = line.partition(" | ")
        seen[question] = seen.get(question, 0) + 1
        yield (f"{question} {seen[question]}", answer) if bar else (f"line {number}", line)


def columns_of(table: pd.DataFrame) -> list[tuple[str, Any]]:
    """Return a digest of each column, in which the order of rows counts."""
    digests = [
        (column, hashlib.sha256("\n".join(table[column].astype(str)).encode()).hexdigest()[:12])
        for column in table.columns
        if not VARIES.search(column)
    ]
    return [("rows", len(table)), *digests]


def flat(value: Any, key: str) -> Any:
    """Yield the values of a record by their dotted keys; of the epochs' losses the last three."""
    if isinstance(value, dict | list) and not value:
        yield key, str(value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from flat(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value[-3:] if key == "epochs" else value):
            yield from flat(inner, f"{key}.{number}" if key else str(number))
    elif not VARIES.search(key):
        yield key, value


def compare(one: dict[tuple[str, str], Any], other: dict[tuple[str, str], Any]) -> Any:
    """Yield file, key and both values where these differ, to the last digit."""
    files = [{file for file, _ in content} for content in (one, other)]
    for file in sorted(files[0] ^ files[1]):
        yield file, "*", "there" if file in files[0] else "-", "there" if file in files[1] else "-"
    for file, key in sorted({*one, *other}):
        if file in files[0] ^ files[1]:
            continue
        values = one.get((file, key), "-"), other.get((file, key), "-")
        if repr(values[0]) != repr(values[1]):
            yield file, key, *values


def read_expected(path: Path) -> list[tuple[str, str, str, str]]:
    """Return patterns of cases, files and keys, and the decision that changes them."""
    lines = [line.split(maxsplit=3) for line in path.read_text().splitlines() if line.strip() and line[0] != "#"]
    return [(case, file, key, reason) for case, file, key, reason in lines]


def short(value: Any) -> str:
    """Return a value in 22 signs."""
    text = str(value)
    return text if len(text) <= 22 else f"{text[:19]}..."


if __name__ == "__main__":
    sys.exit(main())
