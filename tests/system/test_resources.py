"""Files that are shipped are found installed or not, and near names are offered."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.resources import find_config, shipped
from recbole_bert4rec.system.yaml_files import read_yaml


def test_without_installation_the_files_of_the_checkout_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = sorted(entry.name for entry in shipped("recipe").iterdir())

    def missing(package: Any) -> Any:
        raise ModuleNotFoundError(package)

    monkeypatch.setattr(importlib.resources, "files", missing)
    assert sorted(entry.name for entry in shipped("recipe").iterdir()) == installed
    assert Path(find_config(installed[0])).is_file()


def test_a_name_like_no_other_gets_the_list_of_all() -> None:
    with pytest.raises(UserError, match=r"the names of properties/recipe are best-b.*\.yaml"):
        find_config("zzzzzzzz")


def test_a_key_that_stands_twice_is_named_with_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "twice.yaml"
    file.write_text("epochs: 3\nseed: 1\nepochs: 4\n")
    with pytest.raises(UserError, match="`epochs` stands in line 1 and again in line 3"):
        read_yaml(str(file))


def test_numbers_are_written_as_in_science(tmp_path: Path) -> None:
    file = tmp_path / "numbers.yaml"
    file.write_text("a: 1e-3\nb: 2E5\nc: 1_0e1\nd: e3\n")
    assert read_yaml(str(file)) == {"a": 0.001, "b": 200000.0, "c": 100.0, "d": "e3"}
