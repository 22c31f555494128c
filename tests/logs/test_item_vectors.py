"""Files of vectors of items: what is read of them, and what is named of a mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recbole_bert4rec.logs import items
from recbole_bert4rec.logs.items import read_item_vectors
from recbole_bert4rec.system.errors import UserError


@pytest.fixture(autouse=True, params=[1, 2, 1 << 14], ids="parts of {} rows".format)
def rows_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "_ROWS_AT_ONCE", request.param)


VECTORS = np.array([[0.5, 1.0], [2.0, -3.0], [0.25, 8.0]], np.float32)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"item_id": ["a", "b", "c"], **columns})


@pytest.mark.parametrize(
    "table",
    [
        frame(vector=list(VECTORS)),
        frame(v0=VECTORS[:, 0], v1=VECTORS[:, 1]),
        frame(vector=[row.astype(np.float16) for row in VECTORS]).rename(columns={"item_id": "asin"}),
        frame(vector=list(VECTORS)).set_index(pd.Index([7, 9, 2])),
    ],
)
def test_lists_and_columns_of_numbers_are_vectors(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "a.parquet")
    items, vectors = read_item_vectors(str(tmp_path / "a.parquet"), "asin")
    assert items.tolist() == ["a", "b", "c"]
    assert np.array_equal(vectors, VECTORS)
    assert vectors.dtype == np.float16


def test_ids_that_are_whole_numbers_are_those_of_a_log(tmp_path: Path) -> None:
    frame(vector=list(VECTORS)).assign(item_id=[7.0, 12.0, 1.0]).to_parquet(tmp_path / "a.parquet")
    assert read_item_vectors(str(tmp_path / "a.parquet"), "item_id").items.tolist() == ["7", "12", "1"]


def test_a_matrix_has_its_ids_beside_it(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VECTORS)
    (tmp_path / "a.txt").write_text("a\nb\nc\n")
    items, vectors = read_item_vectors(str(tmp_path / "a.npy"), "item_id")
    assert (items.tolist(), vectors.tolist()) == (["a", "b", "c"], VECTORS.tolist())


def broken(row: int, number: float) -> list[Any]:
    vectors = VECTORS.copy()
    vectors[row, 0] = number
    return list(vectors)


MISTAKES = [
    (frame(vector=list(VECTORS)).assign(item_id=["a", "b", "a"]), "'a', in row 2"),
    (frame(vector=list(VECTORS)).assign(item_id=["a", None, "c"]), "None, in row 1"),
    (frame(vector=broken(1, np.nan)), "'b', in row 1"),
    (frame(vector=broken(2, 1e6)), "'c', in row 2, .* 65504"),
    (frame(vector=[[1.0, 2.0], [1.0], [1.0, 2.0]]), "'a' has 2 .*'b' has 1"),
    (frame(vector=[[1.0], None, [1.0]]), "'a' has 1 .*'b' has 0"),
    (frame(vector=list(VECTORS), title=["x", "y", "z"]), "'item_id'"),
    (frame(title=["x", "y", "z"]), ""),
    (frame(vector=list(VECTORS)).rename(columns={"item_id": "id"}), "'item_id'.*'id'"),
    (frame(), r" 3 ids .*\(3, 0\)"),
]


@pytest.mark.parametrize(("table", "named"), MISTAKES)
def test_a_mistake_is_one_line_that_says_where(table: pd.DataFrame, named: str, tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    table.to_parquet(path)
    with pytest.raises(UserError, match=f"^item_vectors={path}.*{named}") as error:
        read_item_vectors(path, "item_id")
    assert "\n" not in str(error.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("no")
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "b.npy", VECTORS)
    np.save(tmp_path / "c.npy", VECTORS)
    (tmp_path / "b.txt").write_text("a\nb\n")
    for name in ("a.csv", "none.parquet", "a.parquet, b.npy", "a.parquet", "a.npy", "b.npy", "c.npy"):
        with pytest.raises(UserError, match=f"item_vectors=.*{name}"):
            read_item_vectors(str(tmp_path / name), "item_id")
