"""Versions, machine and source; files that are shipped; what is changed for the length of a block."""

from __future__ import annotations

import importlib.resources
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from recbole_bert4rec.system import environment
from recbole_bert4rec.system.environment import find_config, shipped
from recbole_bert4rec.system.errors import UserError


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_versions_and_machine_are_told() -> None:
    found = environment.environment()
    assert found["versions"]["recbole"] == "1.2.1"
    assert found["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    assert found["machine"]["processor"]
    assert environment.peak_memory_mb() > 50


def test_the_memory_of_a_process_is_not_that_of_the_one_that_started_it() -> None:
    held = np.ones(40_000_000)
    program = "from recbole_bert4rec.system.environment import peak_memory_mb; print(peak_memory_mb())"
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert 5 < float(output) < held.nbytes / 2**20 < environment.peak_memory_mb()


def test_the_commit_is_that_of_the_checkout_and_changes_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, results = tmp_path / "package" / "a.py", tmp_path / "benchmarks" / "results" / "figures.json"
    for file in (code, results):
        file.parent.mkdir(parents=True)
        file.write_text("[]")
    monkeypatch.setattr(environment, "__file__", str(code.parent / "system" / "environment.py"))
    assert environment.commit() is None, "no checkout"
    (tmp_path / ".git").mkdir()
    assert environment.commit() is None, "a broken checkout"
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        git(tmp_path, *words)
    clean = environment.commit()
    assert clean is not None
    assert re.fullmatch("[0-9a-f]{12}", clean)
    results.write_text("[1]")
    assert environment.commit() == clean, "results are not code"
    code.write_text("changed\n")
    assert environment.commit() == f"{clean} with changes"


def test_without_installation_the_files_of_the_checkout_are_found_and_are_named_for_a_name_like_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = sorted(entry.name for entry in shipped("recipe").iterdir())
    monkeypatch.setattr(importlib.resources, "files", Mock(side_effect=ModuleNotFoundError))
    assert sorted(entry.name for entry in shipped("recipe").iterdir()) == installed
    assert Path(find_config(installed[0])).is_file()
    with pytest.raises(UserError, match=r"best-b.*\.yaml"):
        find_config("zzzzzzzz")
