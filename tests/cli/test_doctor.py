"""The doctor ends with 1 where BERT4Rec cannot run, and names what is missing or broken, and every patch."""

from __future__ import annotations

import importlib
from importlib import metadata
from types import SimpleNamespace
from typing import Any

import pytest

from recbole_bert4rec.__main__ import main
from recbole_bert4rec.cli import doctor
from recbole_bert4rec.plugin import hooks


def missing(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a package look as if it were not installed."""
    version = metadata.version

    def of_installed(name: str) -> str:
        if name == package:
            raise metadata.PackageNotFoundError
        return version(name)

    monkeypatch.setattr(doctor.metadata, "version", of_installed)


def broken(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the import of a package fail."""

    def imported(name: str) -> Any:
        if name == module:
            raise AttributeError("module 'numpy' has no attribute 'bool8'")
        return importlib.import_module(name)

    monkeypatch.setattr(doctor, "importlib", SimpleNamespace(import_module=imported))


def test_all_is_well_where_everything_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for name in ("1.2.1", "duckdb", "plotly", *(hook.reason.split()[0] for hook in hooks.HOOKS)):
        assert name in printed


@pytest.mark.parametrize(
    ("fault", "module", "code", "named"),
    [
        (missing, "recbole", 1, "recbole==1.2.1"),
        (missing, "pandas", 1, "'pandas>=2,<3'"),
        (missing, "plotly", 0, "comparisons, searches"),
        (broken, "ray.tune", 0, "ray[tune]"),
        (broken, "thop", 1, "bool8"),
    ],
)
def test_what_is_missing_or_broken_is_named_and_ends_with_1_where_bert4rec_needs_it(
    fault: Any, module: str, code: int, named: str, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    fault(module, monkeypatch)
    assert doctor.main() == code
    assert named in capsys.readouterr().out


def test_a_wheel_names_its_requirements_too(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements = ["pandas<3,>=2", 'ray[tune]>=2.60; extra == "tune"', 'plotly; extra == "plots"']
    monkeypatch.setattr(doctor, "__file__", "/site-packages/recbole_bert4rec/cli/doctor.py")
    monkeypatch.setattr(doctor.metadata, "requires", lambda name: requirements)
    assert [*doctor._requirements()] == [("", "pandas<3,>=2"), ("tune", "ray[tune]>=2.60"), ("plots", "plotly")]


def test_a_recbole_that_is_not_registered_or_does_not_fit_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hooks, "state_of", lambda hook: "to be made")
    assert doctor.main() == 1
    monkeypatch.delattr(hooks, "HOOKS")
    assert doctor.main() == 1
    assert "HOOKS" in capsys.readouterr().out
