"""Files that are shipped are found installed or not, and other names get the list of all."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.system.environment import find_config, shipped
from recbole_bert4rec.system.errors import UserError


def test_without_installation_the_files_of_the_checkout_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = sorted(entry.name for entry in shipped("recipe").iterdir())

    def missing(package: Any) -> Any:
        raise ModuleNotFoundError(package)

    monkeypatch.setattr(importlib.resources, "files", missing)
    assert sorted(entry.name for entry in shipped("recipe").iterdir()) == installed
    assert Path(find_config(installed[0])).is_file()


def test_a_name_like_no_other_gets_the_list_of_all() -> None:
    with pytest.raises(UserError, match=r"best-b.*\.yaml"):
        find_config("zzzzzzzz")
