"""The package's public names, and what of it works where RecBole is not installed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recbole_bert4rec
from recbole_bert4rec.system.environment import EXTRAS
from tests.helpers.data import histories_to_rows, overlapping_histories
from tests.helpers.programs import BLOCKED

ROOT = Path(recbole_bert4rec.__file__).parents[1]


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)


def test_public_names_come_when_they_are_asked_for() -> None:
    for name in recbole_bert4rec.__all__:
        assert getattr(recbole_bert4rec, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        recbole_bert4rec.no_such_name  # noqa: B018


def test_the_version_is_that_of_the_newest_changes() -> None:
    version = recbole_bert4rec.__version__
    assert f"\n## {version} " in (ROOT / "CHANGELOG.md").read_text("utf-8").partition("\n### ")[0]


def test_importing_the_package_imports_neither_programs_nor_plots() -> None:
    done = python(
        "import sys, recbole_bert4rec, recbole.config\n"
        "print([n for n in sys.modules if n.split('.')[-1] in ('comparison', 'tuning', 'cli', 'run')"
        " and n.startswith('recbole_bert4rec')])\n"
        f"print([n for n in {tuple(EXTRAS)!r} if n in sys.modules])"
    )
    assert done.stdout.split() == ["[]", "[]"], done.stderr


@pytest.mark.parametrize(
    ("program", "named"),
    [
        (f"{BLOCKED}\nimport recbole_bert4rec\nrecbole_bert4rec.run", "recbole=="),
        (f"{BLOCKED}\nfrom recbole_bert4rec.cli.doctor import main\nsys.exit(main())", ""),
        (f"{BLOCKED}\nfrom recbole_bert4rec.__main__ import main\nsys.exit(main())", "recbole==.*doctor"),
        (
            "import sys, pandas\npandas.__version__ = '3.0.1'\n"
            "from recbole_bert4rec.cli.main import main\nsys.exit(main(['run']))",
            "pandas 3.0.1",
        ),
    ],
    ids=["run", "doctor", "command", "pandas 3"],
)
def test_what_cannot_run_ends_with_1_and_says_what_is_missing(program: str, named: str) -> None:
    done = python(program)
    assert done.returncode == 1
    assert re.search(named, done.stderr)
    assert "Traceback" not in done.stderr or "ImportError" in done.stderr.splitlines()[-1]


def test_a_reader_that_leaves_ends_a_command_without_a_traceback() -> None:
    command = [sys.executable, "-m", "recbole_bert4rec", "doctor"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE


ABSENT = tuple(name for name, extra in EXTRAS.items() if extra != "onnx")  # torch itself looks for onnx
WITHOUT_EXTRAS = f"{BLOCKED}\nBlock.names = {ABSENT!r}\n"


def test_training_testing_and_recommending_work_without_what_is_optional(write_inter: Any, tmp_path: Path) -> None:
    data = write_inter(histories_to_rows(overlapping_histories(30)))
    flags = [f"--{name}={value}" for name, value in {**data, "epochs": 1, "hidden_size": 16, "n_layers": 1}.items()]
    program = f"""{WITHOUT_EXTRAS}
import os
from recbole_bert4rec.cli.main import main
os.chdir({str(tmp_path)!r})
code = main(["run", *{flags!r}, "--recommend=top.csv", "--show_progress=False"])
print("code", code, any(name.split(".")[0] in Block.names for name in sys.modules))
"""
    done = python(program)
    assert done.stdout.splitlines()[-1] == "code 0 False", done.stderr
    assert (tmp_path / "top.csv").read_text().startswith("user_id,item_id,rank,score\n")


def test_what_needs_an_extra_names_it_at_once() -> None:
    program = f"""{WITHOUT_EXTRAS}
from recbole_bert4rec.cli.main import main
for words in (["tune", "--params_file={__file__}"], ["--model=Pop,BERT4Rec"], ["serve", "--checkpoint=m.pth"]):
    print(main(words))
"""
    done = python(program)
    assert done.stdout.split() == ["1", "1", "1"]
    search, comparison, service = done.stderr.splitlines()
    assert "hyperopt, plotly" in search
    assert "plots" in comparison
    assert "fastapi, uvicorn" in service
