"""Rows of a checkpoint that several processes wrote: joined, read one by one, and refused where they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.growth import ITEM_EMBEDDING, OUTPUT_BIAS
from recbole_bert4rec.plugin import checkpoint, parts, sealed
from tests.conftest import make_config, make_trainer, prepare

TOKEN = "0123abcd"


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, Any]:
    """The entries of a checkpoint of one process."""
    config = make_config(dataset="ml-100k", epochs=1, checkpoint_dir=str(tmp_path), hidden_size=8, inner_size=8)
    _, train, _, _ = prepare(config)
    trainer = make_trainer(config, train)
    trainer.check_data(train._dataset)
    trainer._write(str(tmp_path / "one.pth"), 0, {}, trainer.random_states())
    return checkpoint.read(tmp_path / "one.pth")


@pytest.fixture
def shared(whole: dict[str, Any], tmp_path: Path) -> Path:
    """The same, written by three processes."""
    path, processes = tmp_path / "some.pth", 3
    table, bias = (whole["state_dict"][name] for name in (ITEM_EMBEDDING, OUTPUT_BIAS))
    each = -(-(len(table) - 1) // processes)
    for rank in range(processes):
        rows = table[1 + rank * each : 1 + (rank + 1) * each]
        last = rank == processes - 1
        own = torch.cat([table[:1], rows, *([] if last else [torch.full_like(rows[:1], torch.nan)])])
        here = torch.cat([bias[:1], bias[1 + rank * each : 1 + (rank + 1) * each]])
        weights = {**whole["state_dict"], ITEM_EMBEDDING: own, OUTPUT_BIAS: here}
        optimizer = {**whole["optimizer"], "state": {4: {"step": torch.tensor(1.0)}, 7: {"exp_avg": own}}}
        state = {**whole, "state_dict": weights, "optimizer": optimizer}
        kept = parts.write(str(path), state, rank, TOKEN, processes, [7])
    assert set(kept["state_dict"]) == set(whole["state_dict"]) - set(parts.SHARED)
    assert list(kept["optimizer"]["state"]) == [4]
    checkpoint.write(path, kept)
    return path


def test_rows_of_all_processes_are_joined(shared: Path, whole: dict[str, Any]) -> None:
    found = checkpoint.read(shared)
    assert parts.PARTS not in found
    assert all(torch.equal(found["state_dict"][name], weight) for name, weight in whole["state_dict"].items())
    assert set(found["state_dict"]) == set(whole["state_dict"])


def test_a_process_reads_its_own_rows_and_nobody_none(shared: Path, whole: dict[str, Any]) -> None:
    own = checkpoint.read(shared, rank=1, processes=3)
    table: Tensor = own["state_dict"][ITEM_EMBEDDING]
    each = len(table) - 2
    assert torch.equal(table[1:-1], whole["state_dict"][ITEM_EMBEDDING][1 + each : 1 + 2 * each])
    assert torch.equal(own["optimizer"]["state"][7]["exp_avg"][:-1], table[:-1])
    assert ITEM_EMBEDDING not in checkpoint.read(shared, rank=parts.NO_ROWS)["state_dict"]


def test_another_number_of_processes_is_refused_and_a_single_one_takes_all(shared: Path) -> None:
    with pytest.raises(UserError, match="in the files of 3 processes, but here are 2; give --nproc=3 to train on"):
        checkpoint.read(shared, rank=0, processes=2)
    assert parts.PARTS not in checkpoint.read(shared, rank=0, processes=1)


def file_of(path: Path, rank: int = 1) -> Path:
    return Path(f"{path}.{TOKEN}.{rank}-of-3.part")


def test_files_of_an_earlier_checkpoint_of_the_same_name_are_deleted_and_no_others(shared: Path) -> None:
    earlier, of_another = Path(f"{shared}.89abcdef.0-of-2.part"), Path(f"{shared}x.89abcdef.0-of-2.part")
    earlier.touch()
    of_another.touch()
    parts.tidy(str(shared), TOKEN)
    assert not earlier.exists()
    assert of_another.exists()
    assert all(file_of(shared, rank).exists() for rank in range(3))


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    part = sealed.read(path)
    change(part)
    sealed.write(path, part)


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.update(token="89abcdef"),
        lambda part: part.update(more=1),
        lambda part: part.pop("state_dict"),
        lambda part: part.update(optimizer=3),
        lambda part: part["state_dict"].pop(OUTPUT_BIAS),
        lambda part: part["state_dict"].update({OUTPUT_BIAS: torch.zeros(3)}),
        lambda part: part["state_dict"].update({ITEM_EMBEDDING: "x"}),
    ],
)
def test_a_file_that_is_not_of_the_checkpoint_is_refused(change: Any, shared: Path) -> None:
    rewrite(file_of(shared), change)
    with pytest.raises(UserError, match=r"1-of-3\.part does not hold rows of .*some\.pth; copy it again or train anew"):
        checkpoint.read(shared)


def test_a_file_that_is_missing_or_damaged_is_named(shared: Path) -> None:
    file = file_of(shared)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"1-of-3\.part is damaged"):
        checkpoint.read(shared)
    file.unlink()
    with pytest.raises(UserError, match="which is missing; keep the files together"):
        checkpoint.read(shared)
    assert checkpoint.read(shared, rank=0, processes=3)["epoch"] == 0


@pytest.mark.parametrize(
    "entry",
    [{}, {"token": "../../abc", "processes": 2}, {"token": TOKEN, "processes": 1}, {"token": 1, "processes": 2}],
)
def test_an_entry_that_names_other_files_is_refused(entry: dict[str, Any], shared: Path) -> None:
    state = checkpoint.read(shared, rank=parts.NO_ROWS)
    checkpoint.write(shared, {**state, parts.PARTS: entry})
    with pytest.raises(UserError, match="entry 'parts' must be a token and the number of processes"):
        checkpoint.read(shared)
