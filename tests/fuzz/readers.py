"""Every reader of files, with whole files of its kind to damage."""

from __future__ import annotations

import io
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import torch

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.comparison.results import read_run
from recbole_bert4rec.comparison.study import read_study
from recbole_bert4rec.logs.interactions import InteractionFile, read_part
from recbole_bert4rec.recommend import load as checkpoints
from recbole_bert4rec.recommend.export import export
from recbole_bert4rec.recommend.opened import load
from recbole_bert4rec.serving.items import ItemFile
from recbole_bert4rec.system.resources import shipped
from recbole_bert4rec.training.build import load_data
from recbole_bert4rec.training.inputs import configure
from recbole_bert4rec.training.record import read_record
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.training.run import run
from recbole_bert4rec.tuning.space import read_space
from recbole_bert4rec.tuning.trials import TrialLog
from tests.fuzz.mutants import mutant
from tests.helpers.data import atomic_file

QUIET = {"show_progress": False, "state": "critical", "use_gpu": False}
SMALL = {"hidden_size": 8, "inner_size": 8, "n_layers": 1, "n_heads": 1, "MAX_ITEM_LIST_LENGTH": 8, "epochs": 1}
ROWS = [(f"u{u}", f"i{(u + t) % 12}", 10 * t + u) for u in range(12) for t in range(6)]


def _mutant(whole: list[bytes], draw: random.Random) -> bytes:
    while (changed := mutant(draw.choice(whole), whole, draw)) in whole:
        pass
    return changed


@dataclass(frozen=True)
class Reader:
    """A reader.

    Attributes:
        name: of the file that it reads, below the current folder.
        whole: returns files that it reads.
        read: reads the file of this name.
        around: returns other files that must be there.
        damage: returns another file, given the whole ones.
    """

    name: str
    whole: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    around: Callable[[], dict[str, bytes]] = dict
    damage: Callable[[list[bytes], random.Random], bytes] = _mutant


def _inter(separator: str = "\t", header: str = "user_id:token\titem_id:token\ttimestamp:float") -> bytes:
    lines = [header, *(separator.join(map(str, row)) for row in ROWS)]
    return ("\n".join(lines) + "\n").encode()


def _read_inter(path: Path) -> None:
    options = {**QUIET, **SMALL, "data_path": "data"}
    config = configure(RunRequest(dataset="toy", options=options))
    load_data(config)


def _toy() -> dict[str, bytes]:
    return {"data/toy/toy.inter": _inter()}


def _table(path: Path) -> object:
    return atomic_file(str(path), "user_id", "item_id", "timestamp")


def _frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["user_id", "item_id", "timestamp"])


def _parquet() -> list[bytes]:
    found = []
    for frame in (_frame(), _frame().astype({"user_id": "category", "timestamp": float})):
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        found.append(buffer.getvalue())
    return found


def _shipped(kind: str) -> list[bytes]:
    return [file.read_bytes() for file in shipped(kind).iterdir() if file.name.endswith(".yaml")]


def _read_yaml(path: Path) -> None:
    configure(RunRequest(dataset="toy", config_files=(str(path),), options={**QUIET, "data_path": "data"}))


_ABOUT = {"model": "BERT4Rec", "metric": "MRR@10", "bigger": True, "seed": 1, "space": {"x": ["uniform", 0, 1]}}


def _trials() -> list[bytes]:
    trial = {"number": 0, "params": {"x": 0.5}, "status": "finished", "score": 0.5, "valid": {"mrr@10": 0.5}}
    trial |= {"epochs": 3, "best_epoch": 1, "seconds": 1.5, "reason": ""}
    lines = [{"search": _ABOUT}, trial, {**trial, "number": 1, "params": {"x": 0.25}}]
    return ["".join(json.dumps(line) + "\n" for line in lines).encode()]


@cache
def _trained() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Train a small model; return its files, and the ranks of its test."""
    with folder_of(_toy()):
        found = run(dataset="toy", options={**QUIET, **SMALL, "data_path": "data"}, ranks="r.parquet")
        best, last = found.checkpoint.read_bytes(), Path(checkpoint.last_of(found.checkpoint)).read_bytes()
        record = {**found.record, "contestant": "BERT4Rec"}
        return {"best": best, "last": last, "record": json.dumps(record).encode()}, {
            "r": Path("r.parquet").read_bytes()
        }


def _best() -> dict[str, bytes]:
    return {"a.pth": _trained()[0]["best"]}


_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    [],
    {},
    [[]],
    {"a": 1},
    (1, 2),
]
_VALUES += [torch.ones(3), torch.full((2, 2), float("nan")), torch.zeros((), dtype=torch.uint8)]


def _resealed(whole: list[bytes], draw: random.Random) -> bytes:
    """Return a checkpoint, with a checksum of its own, one of whose values is another."""
    state = torch.load(io.BytesIO(draw.choice(whole)), weights_only=True)
    holder: Any = state
    key: Any = draw.choice([name for name in state if name != "format"])
    while draw.random() < 0.7 and isinstance(holder[key], (dict, list)) and holder[key]:
        holder = holder[key]
        key = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    if isinstance(holder, dict) and draw.random() < 0.2:
        del holder[key]
    else:
        holder[key] = draw.choice(_VALUES)
    checkpoint.write("resealed.pth", state)
    return Path("resealed.pth").read_bytes()


def _read_changed(path: Path) -> None:
    checkpoint.read(path)
    raise AssertionError("a changed checkpoint was read")


def _resume(path: Path) -> None:
    Path("a.pth").write_bytes(_trained()[0]["best"])
    run(resume=str(path), options={**QUIET, "data_path": "data", "epochs": 2})


def _ask(model: Any) -> None:
    model.recommend({"u": ["i1", "i2"], "nobody": []}, k=3)


@cache
def _indexed() -> bytes:
    """Return an index of the small model."""
    with folder_of(_best()):
        checkpoints.load("a.pth", "cpu").build_index(0.9, 3, _frame()).save("index.npz")
        return Path("index.npz").read_bytes()


@cache
def _exported() -> dict[str, bytes]:
    """Return the files of the small model's export."""
    with folder_of(_best()):
        export(checkpoints.load("a.pth", "cpu"), "out")
        return {str(file): file.read_bytes() for file in Path("out").iterdir()}


def _of_export(name: str) -> Reader:
    return Reader(
        f"out/{name}",
        lambda: [_exported()[f"out/{name}"]],
        lambda path: _ask(load("out")),
        _exported,
    )


def _asked_about(path: Path) -> None:
    model = checkpoints.load("a.pth", "cpu")
    source = InteractionFile(str(path), model.fields)
    for part in source.divide(Path("parts"), 2):
        model.recommend(read_part(part), k=3)


_ITEMS = [(f"i{n}", f"Thing {n}", f"{n % 3} {n % 2}") for n in range(12)]


def _items(*header: str) -> bytes:
    """Return an .item file: id, name, kinds."""
    return "".join("\t".join(row) + "\n" for row in [header, *_ITEMS]).encode()


def _show_items(path: Path) -> None:
    items = ItemFile(str(path), "item_id")
    for item in ("i1", "i2", "nothing"):
        items.show(item)


def _read_features(path: Path) -> None:
    columns = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "kinds"]}
    options = {**QUIET, **SMALL, "data_path": "data", "load_col": columns, "selected_features": ["kinds"]}
    load_data(configure(RunRequest(dataset="toy", options=options)))


def _begin_warm(path: Path) -> None:
    run(dataset="toy", options={**QUIET, "data_path": "data", "epochs": 0, "warm_start": str(path)})


def _run_of_comparison(path: Path) -> None:
    read_run(path.parent, "one", pd.read_parquet("rows.parquet")["user"])


def _ranks_frame() -> bytes:
    buffer = io.BytesIO(_trained()[1]["r"])
    frame = pd.read_parquet(buffer)
    out = io.BytesIO()
    frame[["user"]].to_parquet(out, index=False)
    return out.getvalue()


@contextmanager
def folder_of(files: dict[str, bytes]) -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, content in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content)
        try:
            with mock.patch("sys.argv", ["fuzz"]):
                yield
        finally:
            os.chdir(before)


READERS = {
    "inter": Reader("data/toy/toy.inter", lambda: [_inter()], _read_inter),
    "csv": Reader("log.csv", lambda: [_frame().to_csv(index=False).encode()], _table),
    "parquet": Reader("log.parquet", _parquet, _table),
    "conversion": Reader(
        "log/conversion.json",
        lambda: [
            b'{"log": "log.csv", "made_from": {"format": 3, "files": [["log.csv", 3, 1.5]], "columns": ["a", "b"]}}'
        ],
        lambda path: _table(Path("log.csv")),
        lambda: {"log.csv": _frame().to_csv(index=False).encode(), "log/log.inter": _inter()},
    ),
    "yaml": Reader("a.yaml", lambda: _shipped("recipe") + _shipped("dataset"), _read_yaml, _toy),
    "space": Reader(
        "space.hyper",
        lambda: [b"n_layers choice [1, 2]  # layers\nx uniform 0,0.5\ny quniform 16,64,16\nz loguniform10 1e-4,1e-2\n"],
        read_space,
    ),
    "space-yaml": Reader("space.yaml", lambda: [b"choice:\n  n_layers: [1, 2]\nuniform:\n  x: [0, 1]\n"], read_space),
    "study": Reader("study.yaml", lambda: _shipped("study"), lambda path: read_study(str(path))),
    "trials": Reader("t.jsonl", _trials, lambda path: TrialLog(path, _ABOUT, resume=True)),
    "checkpoint": Reader("a.pth", lambda: [_trained()[0]["best"], _trained()[0]["last"]], _read_changed),
    "entries": Reader("a.last.pth", lambda: [_trained()[0]["best"], _trained()[0]["last"]], _resume, _toy, _resealed),
    "model": Reader("a.pth", lambda: [_trained()[0]["best"]], lambda path: _ask(load(path)), damage=_resealed),
    "index": Reader(
        "index.npz",
        lambda: [_indexed()],
        lambda path: _ask(load("a.pth", "cpu", index=path)),
        _best,
    ),
    "export-options": _of_export("options.json"),
    "export-items": _of_export("items.json"),
    "export-graph": _of_export("model.onnx"),
    "warm-start": Reader("a.pth", lambda: [_trained()[0]["best"]], _begin_warm, _toy, _resealed),
    "items": Reader("x.item", lambda: [_items("item_id:token", "name:token_seq", "kinds")], _show_items),
    "features": Reader(
        "data/toy/toy.item",
        lambda: [_items("item_id:token", "name:token", "kinds:token_seq")],
        _read_features,
        _toy,
    ),
    "asked-csv": Reader(
        "new.csv",
        lambda: [_frame().to_csv(index=False).encode()],
        _asked_about,
        _best,
    ),
    "asked-parquet": Reader("new.parquet", _parquet, _asked_about, _best),
    "record": Reader("a.json", lambda: [_trained()[0]["record"]], read_record),
    "run": Reader(
        "runs/one.json",
        lambda: [_trained()[0]["record"]],
        _run_of_comparison,
        lambda: {"runs/one.parquet": _trained()[1]["r"], "rows.parquet": _ranks_frame()},
    ),
    "ranks": Reader(
        "runs/one.parquet",
        lambda: [_trained()[1]["r"]],
        _run_of_comparison,
        lambda: {"runs/one.json": _trained()[0]["record"], "rows.parquet": _ranks_frame()},
    ),
}
