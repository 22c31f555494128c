"""Whole programs, and how they refuse."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import psutil
import pytest

from recbole_bert4rec.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
ROWS = [(f"u{u}", f"i{(u * 3 + t * (1 + u % 2)) % 31}", t) for u in range(60) for t in range(3 + u % 9)]


def flags_of(options: dict[str, str]) -> list[str]:
    """Write options as flags; without others, a program shows no bars and uses the processor."""
    return [f"--{key}={value}" for key, value in {"show_progress": "False", "use_gpu": "False", **options}.items()]


def run_here(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    """Do in this process what run.py does; a new process takes seconds to import RecBole."""
    return main_here([*arguments, *flags_of(options)], "run")


def main_here(words: list[str], name: str | None = None) -> subprocess.CompletedProcess[str]:
    """Do in this process what a command does."""
    with redirect_stdout(StringIO()) as output, redirect_stderr(StringIO()) as errors:
        code = main(words, name=name)
    return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())


def run_py(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    """Do the same in a new process."""
    command = [sys.executable, str(ROOT / "run.py"), *arguments, *flags_of(options)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False)


def python(program: str, *arguments: str, folder: Path = Path()) -> list[str]:
    """What a program of somebody's own prints, which lies in a folder of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "theirs.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-W", "ignore", "theirs.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    """Wait until something is so."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def does(process: psutil.Process, word: str) -> bool:
    """Whether a process lives, with a word in its command."""
    try:
        return word in " ".join(process.cmdline())
    except psutil.Error:  # it has ended meanwhile
        return False


def forked_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The processes of a program that its fork server has started."""
    family = psutil.Process(process.pid).children(recursive=True)
    servers = {one.pid for one in family if does(one, "forkserver")}
    return [one for one in family if one.pid in servers and one.ppid() in servers]


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stderr
    message = done.stderr[done.stderr.rindex("error: ") :]
    for word in words:
        assert word in message
    assert "Traceback" not in done.stderr
    assert not [p for ending in ("pth", "json", "csv", "tmp") for p in Path().rglob(f"*.{ending}")], "half-written"


def assert_main_refuses(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    """The same without the seconds that a new process takes to import RecBole."""
    code = main(arguments, name="run")
    assert_refused(subprocess.CompletedProcess(arguments, code, "", capsys.readouterr().err), *words)


BLOCKED = """
import sys

class Block:
    names = ("recbole", "ray")

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Block())
"""
