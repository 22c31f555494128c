"""What docs/recommending.md shows runs as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd

import recbole_bert4rec
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.system.environment import is_installed
from tests.helpers.runs import make_config
from tests.helpers.trained import PROTOCOL, Trained

PAGE = Path(recbole_bert4rec.__file__).parents[1] / "docs" / "recommending.md"


def test_the_examples_of_the_page_run() -> None:
    options = {"hidden_size": 16, "inner_size": 16, "n_layers": 1, "epochs": 0, "keep_histories": True, **PROTOCOL}
    found = Trained(make_config("BERT4RecPlus", **options))
    Path(found.file).rename("saved/FILE.pth")
    text, names = PAGE.read_text("utf-8"), dict[str, Any]()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        if is_installed("faiss") or "import faiss" not in block:
            exec(block, names)
    names["model"].recommend(k=20).rename(columns={"rank": "timestamp"}).to_csv("log.csv", index=False)
    commands = [line for line in text.splitlines() if line.startswith("python -m recbole_bert4rec ")]
    assert len(commands) == 8
    for command in commands:
        if "--engine=ray" not in command and " export " not in command:  # in tests of their own
            assert main(shlex.split(command, comments=True)[3:]) == 0, command
    assert len(pd.read_parquet("top.parquet")) == 943 * 20
