"""Runs the same commands in two trees and lists what differs in what they leave: losses, metrics, tables, files.

    python tools/guard/twin.py BEFORE AFTER --work=FOLDER [--only=NAME,NAME]

BEFORE and AFTER are checkouts, each with an environment in .venv (or named by --before_python, --after_python). Each
command of cases.py runs in a folder of its own, with one thread and with MKL's products. What a row of decisions.md
changes stands in expected.txt: `CASE FILE KEY-PATTERN  reason`. The exit code is 1 if anything else differs.
"""

from __future__ import annotations

import argparse
import fnmatch
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

import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from cases import CASES, PRELUDE  # noqa: E402

LIMIT_S = 240
"""Seconds that a case may take."""
TIMES = re.compile(
    r"(?<![a-z])(seconds?|times?|ended|memory_mb|path|checkpoint|record|commit|machine|versions|date|file|port|warm_start)(?![a-z])"
)
"""Words in keys of records and in columns of tables whose values differ between two runs of one tree."""


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
    differences, used = [], set()
    for name in names:
        for file, key, one, other in compare(found[name, "before"], found[name, "after"]):
            row = next((row for row in expected if all(map(fnmatch.fnmatch, (name, file, key), row[:3]))), None)
            used |= {row} if row else set()
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
    code = executed(f"{PRELUDE}\n{CASES[name]}", folder, environment, LIMIT_S)
    before = {path.relative_to(data) for path in data.rglob("*")}
    content: dict[tuple[str, str], Any] = {("screen", "exit code"): code}
    for path in sorted(folder.rglob("*")):
        local = path.relative_to(folder)
        if path.is_file() and local not in before and (path.suffix == ".out" or name != "bad-inputs"):
            content |= {(named(local), key): value for key, value in values_of(path)}
    return content


def kept(name: str, tree: Path, python: Path, folder: Path, data: Path) -> dict[tuple[str, str], Any]:
    """Return what an earlier run of the same script in this tree left; run it where there is none."""
    script = CASES[name]
    programs = [
        (HERE / program).read_text()
        for program in re.findall(r"\w+\.py", f"{PRELUDE}{script}")
        if (HERE / program).exists()
    ]
    made_from = [str(tree), PRELUDE, script, *programs]
    record = folder.with_suffix(".left")
    if record.exists():
        of, content = json.loads(record.read_text())
        if of == made_from:
            return {(file, key): value for file, key, value in content}
    left = leave(name, tree, python, folder, data)
    record.write_text(json.dumps([made_from, [(*key, value) for key, value in left.items()]]))
    return left


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


def named(path: Path) -> str:
    """Return a file's name without what is drawn or counted: dates, digests, process numbers."""
    return re.sub(r"-[A-Z][a-z]{2}-\d\d-\d{4}_[\d-]+|-[0-9a-f]{8}(?=\.)", "", str(path))


def values_of(path: Path) -> list[tuple[str, Any]]:
    """Return the values of a file that two runs of one tree have in common."""
    if path.suffix == ".json" and path.parent.name in ("saved", "runs"):
        try:
            return list(flat(json.loads(path.read_text("utf-8")), ""))
        except ValueError as error:  # half of a file
            return [("unreadable", type(error).__name__)]
    if path.suffix == ".out":  # what a case prints to be compared
        return [(f"line {number}", line) for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)]
    if path.suffix in (".csv", ".parquet") or path.name.endswith(".inter"):
        separator = "\t" if path.name.endswith(".inter") else ","
        try:
            table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, sep=separator, dtype=str)
        except (ValueError, OSError) as error:  # written to be refused
            return [("unreadable", type(error).__name__)]
        columns = [column for column in table.columns if not TIMES.search(column)]
        hashes = {
            column: int(pd.util.hash_pandas_object(table[column].astype(str), index=False).sum()) for column in columns
        }
        return [("rows", len(table)), *hashes.items()]
    return []


def flat(value: Any, key: str) -> Any:
    """Yield the numbers of a record by their dotted keys; of the epochs' losses the last three."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not TIMES.search(name):
                yield from flat(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value[-3:] if key == "epochs" else value):
            yield from flat(inner, f"{key}.{number}")
    else:
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
        if values[0] != values[1]:
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
