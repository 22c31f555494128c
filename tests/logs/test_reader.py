"""The fast reader gives what pandas' Python engine gives RecBole."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import recbole.data.dataset.dataset as recbole_dataset

from recbole_bert4rec.logs.atomic import read_columns, reader_of
from recbole_bert4rec.plugin import loading
from tests.helpers.runs import make_config, prepare

HEADER = "user_id:token\titem_id:token\ttimestamp:float\ttags:token_seq"
ROWS = [(f"u{u}", f"i{(u + t) % 9}", t) for u in range(9) for t in range(6)]
KINDS = {"user_id:token": str, "item_id:token": str, "timestamp:float": np.float64, "tags:token_seq": str}


def both(path: Path, columns: list[str], ids: Any = (), **options: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What our reader and pandas' read, gaps as None."""
    dtype = {name: KINDS[name] for name in columns}
    arguments = {"delimiter": "\t", "usecols": columns, "dtype": dtype, "encoding": None, **options}
    readers = (read_columns, partial(pd.read_csv, engine="python"))
    ours, wanted = (reader_of(reader, quoting=True, ids=ids)(str(path), **arguments) for reader in readers)
    ours, wanted = (frame.astype(object).where(frame.notna(), None) for frame in (ours, wanted))
    return ours, wanted


@pytest.mark.parametrize(
    "columns", [list(KINDS), ["user_id:token", "timestamp:float"], ["item_id:token", "tags:token_seq"]]
)
@pytest.mark.parametrize("ids", [(), ("user_id:token", "item_id:token")])
def test_values_missing_values_quotes_and_blank_lines_are_read_alike(
    ids: Any, columns: list[str], tmp_path: Path
) -> None:
    draw = random.Random(0)
    tokens = [
        "a",
        "7",
        "007",
        "-1",
        "",
        "NA",
        "null",
        "None",
        "nan",
        "N/A",
        "Ünal",
        " b ",
        '"quoted"',
        '"two ""words"""',
    ]
    numbers = ["1", "-2.5", "1e9", "", "NaN", "978300019", " 3", "0.1", "1700000000.123456"]
    lines = [HEADER]
    for _ in range(500):
        fields = [draw.choice(tokens), draw.choice(tokens), draw.choice(numbers), draw.choice(["x y", "", "z", "null"])]
        lines.append("\t".join(fields))
        lines.extend([""] if draw.random() < 0.05 else [])
    path = tmp_path / "a.inter"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    ours, wanted = both(path, columns, ids)
    pd.testing.assert_frame_equal(ours, wanted)
    assert "user_id:token" not in columns or ("None" in set(ours["user_id:token"])) == bool(ids)


def test_other_encodings_and_separators_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.inter"
    path.write_text(HEADER.replace("\t", ",") + "\nJosé,b,1,c\n", encoding="latin-1")
    ours, wanted = both(path, ["user_id:token"], delimiter=",", encoding="latin-1")
    assert ours["user_id:token"].tolist() == wanted["user_id:token"].tolist() == ["José"]


def test_while_recbole_loads_with_our_reader_everybody_else_has_pandas_own(
    write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas_own, readers = pd.read_csv, []
    monkeypatch.setattr(
        loading, "read_columns", lambda *given, **more: (readers.append(pd.read_csv), read_columns(*given, **more))[1]
    )
    prepare(make_config(**write_inter(ROWS), topk=[3], valid_metric="MRR@3"))
    assert readers == [pandas_own]
    assert recbole_dataset.pd is pd


def test_a_small_file_can_be_read_without_dropping_rows_whose_gaps_recbole_fills(write_inter: Any) -> None:
    options = {**write_inter(ROWS), "topk": [3], "valid_metric": "MRR@3", "filter_inter_by_user_or_item": False}
    assert len(prepare(make_config(**options))[0].sequences.items) == len(ROWS)
