"""Plants one fault after the other in a copy of a tree; says which of guard and tests find it.

python tools/guard/plant.py TREE --work=FOLDER [--only=NUMBER,NUMBER]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from faults import FAULTS, Fault  # noqa: E402
from twin import compare, leave, make_data  # noqa: E402


def main() -> int:
    """Plant all faults; the exit code is 1 if more than four are not found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", default="", help="numbers of faults, separated by commas")
    options = parser.parse_args()
    tree, work = options.tree.resolve(), options.work.resolve()
    python = (options.tree / ".venv/bin/python").absolute()
    make_data(work / "data", python)

    @cache
    def sound(case: str) -> dict[tuple[str, str], Any]:
        return leave(case, tree, python, work / "sound" / case, work / "data")

    chosen = [int(number) for number in options.only.split(",")] if options.only else range(len(FAULTS))
    missed = []
    for number in chosen:
        fault, began = FAULTS[number], time.perf_counter()
        planted = planted_tree(tree, work / "planted", fault)
        found = next((case for case in fault.cases if differs(case, sound, planted, python, work)), None)
        by = f"guard, {found}" if found else tests_find(planted, python, fault.tests)
        missed += [] if by else [fault.name]
        print(f"{number:3} {fault.name:42} {by or 'NOT FOUND':50} {time.perf_counter() - began:4.0f} s", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} found; missed: {', '.join(missed) or 'none'}")
    return int(len(missed) > 4)


def planted_tree(tree: Path, copy: Path, fault: Fault) -> Path:
    """Return a copy of the tree with a fault."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in ("recbole_bert4rec", "properties", "hyper", "tests", "docs"):
        shutil.copytree(tree / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("run.py", "run_hyper.py", "setup.cfg", "pyproject.toml"):
        shutil.copy(tree / name, copy / name)
    file = copy / "recbole_bert4rec" / fault.file
    text = file.read_text("utf-8")
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.name}: {fault.file} holds the text {text.count(fault.old)} times; adapt the fault")
    file.write_text(text.replace(fault.old, fault.new), "utf-8")
    return copy


def differs(case: str, sound: Any, planted: Path, python: Path, work: Path) -> bool:
    """Tell whether the guard sees a difference in a case."""
    return any(compare(sound(case), leave(case, planted, python, work / "faulty" / case, work / "data")))


def tests_find(planted: Path, python: Path, tests: str) -> str:
    """Return how many tests fail; an empty text if none does."""
    command = [str(python), "-m", "pytest", "-q", "-x", "-n", "2", f"tests/{tests}", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=planted, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # nothing was collected, or pytest itself failed
        raise SystemExit(f"tests/{tests}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}")
    return f"tests/{tests}" if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
