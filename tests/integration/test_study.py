"""What the paper's analyses need, as a user runs it: studies, training on with the validation items."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.helpers.programs import flags_of, main_here

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_a_study_compares_its_variants_draws_them_along_the_axis_and_is_not_repeated(data: dict[str, str]) -> None:
    Path("heads.yaml").write_text("axis: n_heads\nvariants:\n  1 <head>: {n_heads: 1}\n  4 heads: {n_heads: 4}\n")
    command = ["--study=heads.yaml", "--seeds=2", *flags_of(data)]
    done = main_here(command, "compare")
    assert done.returncode == 0, done.stderr
    runs = pd.read_csv("heads-toy/runs.csv")
    assert list(runs["model"]) == ["1 <head>", "1 <head>", "4 heads", "4 heads"]
    assert list(runs["varied"]) == [1, 1, 4, 4]
    for label, names in json.loads(Path("heads-toy/comparison.json").read_text())["runs"].items():
        for name in names:
            config = json.loads(Path("heads-toy", "runs", f"{name}.json").read_text())["config"]
            assert config["n_heads"] == int(label[0])
    for name in ("what-is-varied.png", "report.md", "table.tex"):
        assert (Path("heads-toy") / name).is_file()
    assert "1 &lt;head&gt;" in Path("heads-toy/report.md").read_text("utf-8")
    again = main_here(command, "compare")
    assert again.stdout.count("kept from before") == 4
