"""docs/examples/first_day.ipynb runs from the first cell to the last, and is kept without outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.helpers.programs import ROOT

NOTEBOOK = ROOT / "docs" / "examples" / "first_day.ipynb"


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.integration
@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="make install brings it")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert Path("comparison/report.md").is_file()
    shown = json.dumps(notebook)
    assert "fan of Star Wars" in shown, "the user whom the model recommends to"
    assert "\\u001b" not in shown, "colours of a terminal"
