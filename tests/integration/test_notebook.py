"""examples/first_day.ipynb runs from the first cell to the last, and is kept without outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import recbole_bert4rec

NOTEBOOK = Path(recbole_bert4rec.__file__).parents[1] / "examples" / "first_day.ipynb"


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
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parents[1]), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()

    def shown(words: str) -> list[dict[str, Any]]:
        """What the one cell with these words in it displays."""
        (cell,) = [cell for cell in notebook.cells if cell["cell_type"] == "code" and words in cell["source"]]
        assert not [output for output in cell["outputs"] if output["output_type"] == "error"]
        return [output["data"] for output in cell["outputs"] if "data" in output]

    assert "<svg" in shown("recbole_bert4rec.run(")[-1]["text/html"]
    assert "5 epochs, best epoch" in shown("recbole_bert4rec.run(")[-1]["text/html"]
    assert "fan of Star Wars" in shown("model.recommend(")[-1]["text/html"]
    assert shown("model.explain(")
    page = shown("compare(models")[-1]["text/html"]
    assert "<svg" in page
    assert all(model in page for model in ("BERT4Rec", "SASRecPlus", "Pop"))
    assert Path("comparison/report.md").is_file()
    assert "\\u001b" not in json.dumps(notebook), "colours of a terminal"
