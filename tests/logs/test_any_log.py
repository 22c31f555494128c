"""Whatever a log holds and whatever form it has: training and recommend read what was written, in order."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from recbole_bert4rec import load, run
from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.recommend import histories as read_lists
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS
from tests.helpers.runs import QUIET
from tests.helpers.small import SMALL

FIELDS = ("who", "what", "when")
Histories = Mapping[str, list[str]]
Rows = list[dict[str, Any]]


def ids(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts that can be ids: no blanks around them, not RecBole's padding, and no whole numbers made floats."""
    return texts.map(str.strip).filter(
        lambda text: text not in ("", "[PAD]") and not re.fullmatch(r"[+-]?\d+\.0+", text)
    )


ANY = ids(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=5))
ODD = ids(st.text("\"' ,;|:\\0179eE.-+ä日", min_size=1, max_size=4))
KNOWN = st.sampled_from(["NA", "None", "null", "nan", "007", "7", "1e5", "True", "[MASK]", '"', '""', "a,b"])
ID = st.one_of(ANY, ODD, KNOWN)
NOTE = st.one_of(st.text('",;|\t ab', max_size=6), st.text('"\n ü', max_size=6))
SOMEBODY = {"somebody": ["i1", "i2", "i3", "i4", "i5"]}  # so that there is something to rank
LOGS = st.dictionaries(ID, st.lists(ID, min_size=4, max_size=6), max_size=4).map(lambda log: {**log, **SOMEBODY})


def text(separator: str, encoding: str = "utf-8", end: str = "\r\n") -> Callable[[Path, Rows], None]:
    def write(path: Path, rows: Rows) -> None:
        with open(path, "w", encoding=encoding, newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=separator, lineterminator=end)
            writer.writeheader()
            writer.writerows(rows)
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(path.read_bytes()))

    return write


def of_sessions(write: Callable[[Path, Rows], None]) -> Callable[[Path, Rows], None]:
    """A row a user, with lists."""

    def sessions(path: Path, rows: Rows) -> None:
        users = dict.fromkeys(row["who"] for row in rows)
        own = {user: [row for row in rows if row["who"] == user] for user in users}
        write(path, [{"who": user, **{key: [row[key] for row in own[user]] for key in FIELDS[1:]}} for user in users])

    return sessions


def json_lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def parquet_file(path: Path, rows: Rows) -> None:
    parquet.write_table(pa.Table.from_pylist(rows), path)


def parquet_folder(path: Path, rows: Rows) -> None:
    path.mkdir()
    for number, place in enumerate(range(0, len(rows), 5)):
        parquet_file(path / f"{number:03}.parquet", rows[place : place + 5])


FORMS = {
    "log.csv": text(","),
    "utf16.txt.gz": text("|", "utf-16", end="\n"),
    "log.jsonl": json_lines,
    "sessions.parquet": of_sessions(parquet_file),
    "log-folder": parquet_folder,
}


def as_read(read: read_lists.Histories, tokens: list[str]) -> dict[str, list[str]]:
    lists = zip(read.offsets.tolist(), read.lengths.tolist(), strict=False)  # the last offset is the end
    return {
        user: [tokens[item - 1] for item in read.items[begin : begin + length].tolist()]
        for user, (begin, length) in zip(read.users, lists, strict=True)
        if length
    }


@pytest.mark.parametrize("name", FORMS)
@given(histories=LOGS, notes=st.lists(NOTE, min_size=1, max_size=5), order=st.randoms(use_true_random=False))
# without phases that make a failure smaller, which takes hours; a run of a model has no deadline
@settings(
    max_examples=2,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_training_and_recommend_read_what_was_written(
    name: str, histories: Histories, notes: list[str], order: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("logs") / name.replace("-", "/")
    path.parent.mkdir(exist_ok=True)
    plays = [(user, item) for user, items in histories.items() for item in items]
    rows = [{"who": user, "what": item, "when": 1_600_000_000 + n} for n, (user, item) in enumerate(plays)]
    for number, row in enumerate(rows):
        row["note"] = notes[number % len(notes)]
    order.shuffle(rows)
    FORMS[name](path, rows)
    names = dict(zip(NAMES_OF_COLUMNS, FIELDS, strict=True))
    options = {**QUIET, **SMALL, **names, "epochs": 0, "topk": [3], "valid_metric": "MRR@3", "keep_histories": True}
    result = run(dataset=str(path), options={**options, "checkpoint_dir": str(path.parent / "saved")})
    assert result.checkpoint is not None
    model = load(result.checkpoint, "cpu")
    kept = model.read(None)
    assert as_read(kept, model.items) == histories
    source = InteractionFile(str(path), FIELDS)
    asked = dict[str, list[str]]()
    for part in source.parts():
        asked |= as_read(model.read(part, warn=False), model.items)
    assert asked == histories
    table = model.recommend(histories, k=1, filter_viewed=False)
    assert table["who"].tolist() == list(histories)
