"""Comparisons, studies and searches as operators start them: --quiet, no terminal, NO_COLOR."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from recbole_bert4rec.cli.main import main
from tests.helpers.programs import ROOT, assert_main_refuses

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def flags(data: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in {**data, "use_gpu": "False"}.items()]


def test_a_comparison_and_a_search_say_nothing_if_quiet(
    data: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("space").write_text("mask_ratio choice [0.2,0.4]\n")
    assert main(["compare", "--model=Pop,BERT4Rec", "--quiet", *flags(data)]) == 0
    assert main(["tune", "--params_file=space", "--quiet", "--output_file=other.result", *flags(data)]) == 0
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert Path("other.result").is_file()


def test_what_fails_is_said_with_its_reason_even_if_quiet(
    data: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("study.yaml").write_text("variants: {good: {}, bad: {learning_rate: 1.0e+30}}\n")
    assert main(["compare", "--study=study.yaml", "--quiet", *flags(data)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: 1 of 2 runs failed; the same command tries them again (")
    assert "log: " in captured.err


def test_verbose_is_for_one_run(data: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--model=Pop,BERT4Rec", "--verbose", *flags(data)]
    assert_main_refuses(capsys, command, ["--verbose is for a single run"])


def test_on_a_terminal_no_color_means_no_color(data: dict[str, str]) -> None:
    """Bars move on a terminal, which needs control codes; colours are those codes that end with `m`."""
    for environment, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        parent, child = pty.openpty()
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TERM": "xterm", **environment}
        command = [sys.executable, str(ROOT / "run.py"), "--verbose", *flags(data)]
        process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=env)
        os.close(child)
        shown = b""
        try:
            while block := os.read(parent, 1 << 16):
                shown += block
        except OSError:  # Linux's end of a terminal
            pass
        assert process.wait() == 0, shown.decode()
        assert (b"\x1b[1;3" in shown) is coloured
        assert b"BERT4Rec" in shown


def test_a_run_from_python_shows_no_warning_of_recboles_libraries(data: dict[str, str]) -> None:
    options = {**data, "epochs": 1, "show_progress": False, "use_gpu": False}
    dataset = options.pop("dataset")
    program = f"import recbole_bert4rec; recbole_bert4rec.run(dataset={dataset!r}, options={options!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
