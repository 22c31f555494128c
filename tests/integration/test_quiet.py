"""Comparisons, searches and runs as operators start them: --quiet, no terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recbole_bert4rec.cli.main import main
from tests.helpers.programs import flags_of

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_a_comparison_and_a_search_say_nothing_if_quiet_nor_does_a_run_from_python_of_recboles_libraries(
    data: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("space").write_text("mask_ratio choice [0.2,0.4]\n")
    assert main(["compare", "--model=Pop,BERT4Rec", "--quiet", *flags_of(data)]) == 0
    assert main(["tune", "--params_file=space", "--quiet", "--output_file=other.result", *flags_of(data)]) == 0
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
    assert Path("other.result").is_file()
    options = {**data, "epochs": 1, "show_progress": False, "use_gpu": False}
    dataset = options.pop("dataset")
    program = f"import recbole_bert4rec; recbole_bert4rec.run(dataset={dataset!r}, options={options!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
