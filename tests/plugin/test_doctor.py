"""The doctor names what is installed, what is missing, and every patch."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from recbole_bert4rec.__main__ import main
from recbole_bert4rec.plugin.patches import doctor, places, registry
from recbole_bert4rec.plugin.patches.patch import Scope
from recbole_bert4rec.system.extras import EXTRAS, is_installed, remedy

ON_IMPORT = (Scope.REGISTRATION, Scope.COMPAT)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a package look as if it were not installed."""
    found = doctor.is_installed

    def take_away(module: str) -> None:
        monkeypatch.setattr(doctor, "is_installed", lambda name: name != module and found(name))

    return take_away


def test_all_is_well_where_everything_is_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["recbole-bert4rec", "doctor"])
    assert main() == 0
    said = capsys.readouterr().out
    assert said.startswith("BERT4Rec can run.\n")
    assert said.index("torch") < said.index("GPU:") < said.index("Changes of RecBole:")
    assert "1.2.1" in said
    for patch in registry.patches():
        assert patch.label in said
    needed = [patch.needed() for patch in registry.patches()]
    assert said.count("not needed") == len(needed) - sum(needed)
    assert said.count("on import") == sum(patch.needed() and patch.scope in ON_IMPORT for patch in registry.patches())
    assert ("comes with" in said) == any(not is_installed(module) for module in EXTRAS)


@pytest.mark.parametrize(
    ("module", "package", "command"),
    [
        ("recbole", "recbole", "pip install --no-deps recbole==1.2.1"),
        ("pandas", "pandas", "pip install --upgrade 'pandas<3'"),
    ],
)
def test_what_bert4rec_needs_and_is_missing_is_named(
    without: Any, module: str, package: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    without(module)
    assert doctor.main() == 1
    said = capsys.readouterr().out
    assert f"BERT4Rec cannot run: {package} missing or broken. Mend it with: {command}\n" in said


def test_without_a_library_of_convenience_it_can_run_and_what_does_not_work_is_said(
    without: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    without("plotly")
    assert doctor.main() == 0
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if line.startswith("plotly"))
    assert line.split()[1:] == ["missing", "tuning"]
    missing = [module for module in EXTRAS if module == "plotly" or not is_installed(module)]
    assert f"What is optional and missing comes with, in the checkout: {remedy(missing)}\n" in said


def test_a_library_that_cannot_be_imported_is_told_from_one_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(module: str) -> Any:
        if module == "ray.tune":
            raise AttributeError("module 'numpy' has no attribute 'bool8'")
        return importlib.import_module(module)

    monkeypatch.setattr(doctor, "importlib", SimpleNamespace(import_module=broken))
    assert doctor.main() == 0
    said = capsys.readouterr().out
    assert "(AttributeError: module 'numpy' has no attribute 'bool8')" in said
    assert "comes with: pip install --upgrade 'ray[tune]'\n" in said


def test_a_recbole_that_is_not_registered_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(places, "is_applied", lambda patch: False)
    assert doctor.main() == 1
    assert "BERT4Rec cannot run: it is not registered" in capsys.readouterr().out


def test_libraries_that_do_not_fit_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def patches() -> None:
        raise AttributeError("module 'numpy' has no attribute 'bool8'")

    monkeypatch.setattr(registry, "patches", patches)
    assert doctor.main() == 1
    assert (
        "RecBole does not work here (AttributeError: module 'numpy' has no attribute 'bool8')"
        in capsys.readouterr().out
    )
