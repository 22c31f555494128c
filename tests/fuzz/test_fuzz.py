"""Every reader of files reads what is damaged or refuses it shortly and soon, and runs no code."""

from __future__ import annotations

import io
import random
import shutil
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import pytest

from recbole_bert4rec import checkpoints
from recbole_bert4rec.system.environment import shipped
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import load_data
from recbole_bert4rec.training.run import run
from tests.helpers.data import atomic_file, inter_writer
from tests.helpers.runs import QUIET, configured

SMALL = {**QUIET, "hidden_size": 8, "inner_size": 8, "n_layers": 1, "n_heads": 1, "MAX_ITEM_LIST_LENGTH": 8}
TOY = {**SMALL, "epochs": 1, "dataset": "toy", "data_path": "data"}
ROWS = [(f"u{u}", f"i{(u + t) % 12}", 10 * t + u) for u in range(12) for t in range(6)]
FRAME = pd.DataFrame(ROWS, columns=["user_id", "item_id", "timestamp"])
SECONDS = 5
SIGNS = b"\x00\n\t,\"'#:-[]{}~0"
WORDS = [b"", b"9" * 400, b"[" * 2000, b"a" * 10_000, "\u202e\u0000é".encode(), *(bytes([sign]) for sign in SIGNS)]
WORDS += b"\xff\xfe null NaN nan -Infinity 1e999 -1 1e30 0x10 true None [] {} ../../x".split()
WORDS += [b"&a [*a,*a]", b"*a", b"<<: *a", b"!!int x", b"!!python/object/apply:os.system ['touch pwned']"]
WORDS += [b"=cmd|' /C calc'!A0", b"__import__('os').system('touch pwned')"]


def mutant(content: bytes, others: list[bytes], draw: random.Random) -> bytes:
    """A file with one to four changes; parts of other files of its kind are put into it."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        begin = draw.randint(0, len(changed))
        end = min(len(changed), begin + draw.choice([0, 1, 1, 4, 30]))
        kind = draw.randrange(6)
        if kind == 0 and changed:
            place = draw.randrange(len(changed))
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[begin:end]
        elif kind == 2:
            changed[begin:end] = draw.choice(WORDS)
        elif kind == 3:
            changed[begin:begin] = changed[begin:end] * draw.choice([1, 2, 50])
        elif kind == 4:
            other = draw.choice(others)
            start = draw.randint(0, len(other))
            changed[begin:end] = other[start : start + draw.choice([1, 8, 64])]
        else:
            del changed[draw.randint(0, len(changed)) :]
    return bytes(changed)


def parquet_of(frame: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    return buffer.getvalue()


def trained() -> list[bytes]:
    best = run(options={name: value for name, value in TOY.items() if name != "dataset"}, dataset="toy").checkpoint
    return [best.read_bytes(), Path(checkpoints.last_of(best)).read_bytes()]


def table(path: str) -> Path:
    return atomic_file(path, *FRAME)


CSV = FRAME.to_csv(index=False).encode()
MADE = b'{"log": "log.csv", "made_from": {"format": 3, "files": [["log.csv", 3, 1.5]], "columns": ["a", "b"]}}'
READERS: dict[str, tuple[str, Callable[[], list[bytes]], Callable[[str], Any], int]] = {
    "inter": ("data/toy/toy.inter", lambda: [], lambda path: load_data(configured(**TOY)), 8),
    "csv": ("log.csv", lambda: [CSV], table, 20),
    "parquet": (
        "log.parquet",
        lambda: [parquet_of(FRAME), parquet_of(FRAME.astype({"user_id": "category", "timestamp": float}))],
        table,
        20,
    ),
    "conversion": ("log/conversion.json", lambda: [MADE], lambda path: table("log.csv"), 8),
    "yaml": (
        "a.yaml",
        lambda: [
            file.read_bytes()
            for kind in ("recipe", "dataset")
            for file in shipped(kind).iterdir()
            if file.name.endswith(".yaml")
        ],
        lambda path: configured(files=(path,), **TOY),
        8,
    ),
    "checkpoint": ("a.pth", trained, checkpoints.read, 40),
}
"""A file's name, whole files of its kind, its reader, and how many are damaged."""


def stop(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


@pytest.mark.parametrize("kind", READERS)
def test_a_damaged_file_is_read_or_refused_soon_and_runs_nothing(kind: str, tmp_path: Path) -> None:
    name, files, read, count = READERS[kind]
    inter_writer(tmp_path)(ROWS)
    whole, draw, said = files() or [Path(name).read_bytes()], random.Random(1), list[str]()
    corpus = [file.read_bytes() for file in (Path(__file__).parent / "corpus" / kind).glob("*")]
    signal.signal(signal.SIGALRM, stop)
    for content in [*corpus, *(mutant(draw.choice(whole), whole, draw) for _ in range(count))]:
        for folder in ("log", "log-log"):
            shutil.rmtree(folder, ignore_errors=True)
        Path("log.csv").write_bytes(CSV)
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content)
        if kind == "conversion":
            shutil.copy("data/toy/toy.inter", "log/log.inter")
        signal.alarm(SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read(name)
        except UserError as error:
            said.append(str(error))
        finally:
            signal.alarm(0)
        assert not Path("pwned").exists()
    assert all(len(message) < 4000 for message in said)
