"""A large log is sorted on the disk and mapped, and a run on it is the run in memory, bit by bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from recbole.data import create_dataset, data_preparation
from recbole.quick_start import load_data_and_model

import recbole_bert4rec.logs.convert as conversions
import recbole_bert4rec.logs.events as events
from recbole_bert4rec.checkpoints import read
from recbole_bert4rec.experiments.compare import compare
from recbole_bert4rec.logs.conversion import folder_read, read_record
from recbole_bert4rec.logs.convert import convert
from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.mapped import TIMES, is_mapped
from recbole_bert4rec.plugin.mapped import MappedDataset
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import load_data
from recbole_bert4rec.training.run import RunResult, run
from recbole_bert4rec.training.screen import parts_text
from tests.helpers.runs import QUIET, make_config, prepare

NAMES = ("user_id", "item_id", "timestamp")
SMALL = {**QUIET, "hidden_size": 16, "inner_size": 32, "epochs": 2, "topk": [3], "valid_metric": "MRR@3"}


def log_of(users: int = 40, items: int = 25, seed: int = 0, most: int = 12) -> pd.DataFrame:
    """Return a shuffled log in which some times are equal, some interactions are doubled and some lack an id."""
    draw = np.random.default_rng(seed)
    rows = [("somebody", f"i{step}", 1_700_000_000 + 40 * step) for step in range(6)]
    for user in range(users):
        for _ in range(int(draw.integers(1, most))):
            item = int(draw.integers(0, items) * draw.random())
            rows.append((f"customer-{user}", f"i{item}", 1_700_000_000 + int(draw.integers(0, 300))))
    frame = pd.DataFrame(rows, columns=list(NAMES)).sample(frac=1.0, random_state=seed, ignore_index=True)
    frame = pd.concat([frame, frame[::7]], ignore_index=True)
    frame.loc[3, "user_id"], frame.loc[5, "item_id"] = None, " "
    return frame


def write(frame: pd.DataFrame, folder: Path, files: int = 3) -> str:
    """Write a log as a folder of Parquet files."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[rows].to_parquet(folder / f"part-{number}.parquet", index=False)
    return f"{folder}/"


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every Parquet log be large, and be read and sorted in many parts."""
    monkeypatch.setattr(conversions, "LARGE", 0)
    monkeypatch.setattr(events, "_AT_ONCE", 32)
    monkeypatch.setattr(events, "_TOKENS_AT_ONCE", 7)


def both(frame: pd.DataFrame, tmp_path: Path, patch: pytest.MonkeyPatch, **reading: Any) -> tuple[Path, Path]:
    """Convert a log in memory and on the disk; return the folders of both."""
    memory = convert(write(frame, tmp_path / "memory" / "log"), *NAMES, Reading(**reading))
    patch.setattr(conversions, "LARGE", 0)
    return memory, convert(write(frame, tmp_path / "disk" / "log"), *NAMES, Reading(**reading))


def options_of(folder: Path, **more: Any) -> dict[str, Any]:
    return {"dataset": folder.name, "data_path": str(folder.parent), "exact_time": True, **SMALL, **more}


def assert_same_data(memory: Path, disk: Path, **options: Any) -> None:
    """Check that training, validation and test read the same from both."""
    found = [load_data(make_config(**options_of(folder, **options))) for folder in (memory, disk)]
    assert parts_text(found[0]) == parts_text(found[1])
    assert found[0].interactions == found[1].interactions
    assert np.array_equal(found[0].period, found[1].period)
    (one, *parts), (other, *mapped) = ((data.dataset, data.train, data.valid, data.test) for data in found)
    assert isinstance(other, MappedDataset)
    for field in NAMES[:2]:
        assert np.array_equal(one.field2id_token[field], other.field2id_token[field])
        assert one.field2token_id[field] == dict(other.field2token_id[field])
    assert torch.equal(one.sequences.items, other.sequences.items)
    assert torch.equal(one.sequences.offsets, other.sequences.offsets)
    for ours, theirs in zip(parts, mapped, strict=True):
        ours, theirs = ours._dataset, theirs._dataset
        assert ours.fingerprint() == theirs.fingerprint() if len(ours) else not len(theirs)
        if ours is not parts[0]._dataset:
            for field in ours.inter_feat.columns:
                assert torch.equal(ours.inter_feat[field], theirs.inter_feat[field])
    assert torch.equal(parts[0]._dataset.training_counts(), mapped[0]._dataset.training_counts())


def weights_of(result: RunResult) -> dict[str, torch.Tensor]:
    return read(result.checkpoint)["state_dict"]


@pytest.mark.parametrize("refit", ["train+valid", "all"])
def test_a_run_on_a_large_log_is_the_run_in_memory(refit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame, found = log_of(), []
    more = {"metrics": ["MRR", "NDCG", "AveragePopularity", "ItemCoverage"], "exclude_seen": True}
    more |= {"refit": refit, "keep_histories": True}
    for place, least in (("memory", 10**9), ("disk", 0)):
        monkeypatch.setattr(conversions, "LARGE", least)
        log = write(frame, tmp_path / place / "log")
        saved = str(tmp_path / place / "saved")
        options = {**SMALL, **more, "checkpoint_dir": saved}
        asked = {"recommend": str(tmp_path / f"{place}.csv"), "ranks": str(tmp_path / f"{place}.parquet")}
        found.append(run(model="BERT4Rec", dataset=log, options=options, **asked))
    memory, disk = found
    assert (tmp_path / "memory.csv").read_text() == (tmp_path / "disk.csv").read_text()
    assert memory.record["refit"]["test_result"] == disk.record["refit"]["test_result"]
    refitted = [read(result.record["refit"]["checkpoint"])["state_dict"] for result in found]
    assert all(torch.equal(refitted[0][name], refitted[1][name]) for name in refitted[0])
    assert memory.test_result == disk.test_result
    assert memory.best_valid_result == disk.best_valid_result
    for one, other in zip(memory.record["epochs"], disk.record["epochs"], strict=True):
        assert one["train_loss"] == other["train_loss"]
    states = [read(result.checkpoint) for result in found]
    for name in ("fingerprint", "item_tokens"):
        assert states[0][name] == states[1][name]
    assert torch.equal(states[0]["item_counts"], states[1]["item_counts"])
    assert torch.equal(states[0]["histories"]["items"], states[1]["histories"]["items"])
    assert states[0]["histories"]["users"] == states[1]["histories"]["users"]
    whole = load_data_and_model(str(disk.checkpoint))[2]
    assert isinstance(whole, MappedDataset)
    ours, theirs = map(weights_of, found)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), users=st.integers(8, 30), drop=st.booleans())
def test_any_log_is_sorted_as_in_memory(
    seed: int, users: int, drop: bool, large: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conversions, "LARGE", 10**9)
        folder = tmp_path_factory.mktemp("logs")
        memory, disk = both(log_of(users, 9, seed, most=6), folder, patch, drop_duplicates=drop)
    assert_same_data(memory, disk)
    records = [{**(read_record(folder) or {})} for folder in (memory, disk)]
    for record in records:
        for name in ("made_from", "made_at", "digest", "sorted"):
            record.pop(name, None)
    assert records[0] == records[1]


@pytest.mark.parametrize(
    "options",
    [
        {"valid_users": 5},
        {"eval_args": {"split": {"LS": "test_only"}}},
        {"eval_args": {"mode": "uni5"}},
        {"normalize_all": True},
        {"user_inter_num_interval": "[1,99)", "item_inter_num_interval": "(0,inf)"},
        {"window": "sliding", "MAX_ITEM_LIST_LENGTH": 4},
        {"loss_type": "sampled_softmax", "negatives": "popularity"},
    ],
    ids=str,
)
def test_options_of_data_mean_the_same(
    options: dict[str, Any], large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversions, "LARGE", 10**9)
    folders = both(log_of(), tmp_path, monkeypatch)
    assert_same_data(*folders, **options)


def test_features_of_items_are_read_beside_a_large_log(
    large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversions, "LARGE", 10**9)
    folders = both(log_of(), tmp_path, monkeypatch)
    rows = [f"i{number}\tkind{number % 4}\tbig small" for number in (*range(24, -1, -1), 77)]
    text = "\n".join(["item_id:token\tkind:token\tsizes:token_seq", *rows])
    for folder in folders:
        (folder / f"{folder.name}.item").write_text(text)
    columns = {"inter": list(NAMES), "item": ["item_id", "kind", "sizes"]}
    options = {"load_col": columns, "selected_features": ["kind", "sizes"]}
    assert_same_data(*folders, **options)
    assert_same_data(*folders, **options, item_inter_num_interval="[1,inf)")
    one, other = (prepare(make_config(**options_of(folder, **options)))[1]._dataset for folder in folders)
    for (ours, size), (theirs, also) in zip(
        one.item_features(["kind", "sizes"]), other.item_features(["kind", "sizes"]), strict=True
    ):
        assert torch.equal(ours, theirs)
        assert size == also
    (folders[1] / "log-log.item").write_text(
        "\n".join(["item_id:token\tkind:token", *(row.rpartition("\t")[0] for row in rows[5:])])
    )
    options = {"load_col": {"inter": list(NAMES), "item": ["item_id", "kind"]}, "selected_features": ["kind"]}
    with pytest.raises(UserError, match=r"`filter_inter_by_user_or_item` .* 3 items"):
        prepare(make_config(**options_of(folders[1], **options)))
    (folders[0] / "log-log.item").write_text((folders[1] / "log-log.item").read_text())
    assert_same_data(*folders, **options, filter_inter_by_user_or_item=False)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rm_dup_inter": "first"}, "`rm_dup_inter`"),
        ({"val_interval": {"timestamp": "[0,5]"}}, "`val_interval`"),
        ({"user_inter_num_interval": "[5,inf)"}, "`user_inter_num_interval`"),
        ({"item_inter_num_interval": "[0,9)"}, "`item_inter_num_interval`"),
        ({"exact_time": False}, "`exact_time`"),
        ({"eval_args": {"split": {"GT": {"quantile": 0.9}}}}, "`eval_args`"),
        ({"eval_args": {"mode": "pop5"}}, "popularity"),
        ({"eval_args": {"mode": "uni5"}, "candidates": "paper"}, "`candidates` paper"),
        ({"load_col": {"inter": [*NAMES, "price"]}}, "`load_col`"),
        ({"unload_col": {"inter": ["timestamp"]}}, "`unload_col`"),
        ({"USER_ID_FIELD": "item_id", "ITEM_ID_FIELD": "user_id"}, "USER_ID_FIELD"),
    ],
    ids=str,
)
def test_what_a_large_log_cannot_give_is_refused_by_name(
    options: dict[str, Any], named: str, large: None, tmp_path: Path
) -> None:
    folder = convert(write(log_of(), tmp_path / "log"), *NAMES)
    with pytest.raises(UserError, match=named):
        prepare(make_config(**options_of(folder, **options)))


def test_other_models_and_comparisons_have_an_atomic_file_and_read_no_sorted_one(large: None, tmp_path: Path) -> None:
    log = write(log_of(), tmp_path / "data" / "log")
    folder = convert(log, *NAMES)
    for model in ("GRU4Rec", "GRU4RecPlus", "Pop"):
        with pytest.raises(UserError, match=f"{folder.name}.* {model} "):
            prepare(make_config(model, folder.name, data_path=str(folder.parent)))
    options = {"data_path": str(folder.parent), "exact_time": "True", "use_gpu": "False"}
    with pytest.raises(UserError, match=folder.name):
        compare(["BERT4Rec", "SASRecPlus"], folder.name, options, folder=tmp_path / "compared")
    assert run(model="Pop", dataset=log, options=SMALL).test_result
    assert (folder / "log-log.inter").is_file()
    record = read_record(folder)
    assert is_mapped(folder_read(str(folder), record["sorted"]))
    assert folder_read(str(folder), record["digest"]) == str(folder)
    with_price = pd.read_parquet(tmp_path / "data" / "log").assign(price=1.5)
    with_price.to_csv(tmp_path / "data" / "prices.csv", index=False)
    assert (convert(str(tmp_path / "data" / "prices.csv"), *NAMES, more=("price",)) / "prices.inter").is_file()


def test_logs_above_the_limit_are_sorted_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = log_of()
    log = write(frame, tmp_path / "log")
    monkeypatch.setattr(conversions, "LARGE", len(frame))
    assert (convert(log, *NAMES) / "log-log.inter").is_file()
    monkeypatch.setattr(conversions, "LARGE", len(frame) - 1)
    (tmp_path / "log" / "part-0.parquet").touch()
    folder = convert(log, *NAMES)
    assert is_mapped(folder_read(str(folder), None))
    frame.to_csv(tmp_path / "text.csv", index=False)
    text = convert(str(tmp_path / "text.csv"), *NAMES)
    assert read_record(text)["sorted"] == read_record(folder)["sorted"]


def test_a_large_log_is_sorted_once_and_its_earlier_conversion_is_refused(
    large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, said = log_of(), list[str]()
    log = write(frame, tmp_path / "log")
    monkeypatch.setattr(conversions, "LARGE", 10**9)
    small = read_record(convert(log, *NAMES))
    monkeypatch.setattr(conversions, "LARGE", 0)
    (tmp_path / "log" / "part-0.parquet").touch()
    folder = convert(log, *NAMES, say=said.append)
    first = read_record(folder)["sorted"]
    assert not (folder / "log-log.inter").exists()
    with pytest.raises(UserError, match="log-log"):
        folder_read(str(folder), small["digest"])
    convert(log, *NAMES, say=said.append)
    assert len(said) == 1
    assert f"{len(frame)} rows" in said[0]
    for file in (tmp_path / "log").iterdir():
        file.touch()
    assert read_record(convert(log, *NAMES))["sorted"] == first
    frame[:50].to_parquet(tmp_path / "log" / "part-9.parquet")
    assert read_record(convert(log, *NAMES))["sorted"] != first
    with pytest.raises(UserError, match="log-log"):
        folder_read(str(folder), first)
    monkeypatch.setattr(conversions, "LARGE", 10**9)
    (tmp_path / "log" / "part-0.parquet").touch()
    assert (convert(log, *NAMES) / "log-log.inter").is_file()
    assert not (folder / "sorted").exists()


@pytest.mark.parametrize(
    ("module", "step"),
    [
        (events, "code_ids"),
        (events, "join_codes"),
        (events, "_write_tokens"),
        (conversions, "_digest"),
        (conversions, "keep_made"),
    ],
)
@pytest.mark.parametrize("full", [False, True], ids=["stopped", "full disk"])
def test_a_sorting_that_was_not_finished_leaves_nothing(
    full: bool, module: Any, step: str, large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write(log_of(), tmp_path / "log")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device") if full else KeyboardInterrupt

    shown = pytest.raises(UserError, match=r"log-log .*No space left") if full else pytest.raises(KeyboardInterrupt)
    with monkeypatch.context() as patch, shown:
        patch.setattr(module, step, fail)
        convert(log, *NAMES)
    assert not is_mapped(tmp_path / "log-log" / "sorted")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert is_mapped(folder_read(str(convert(log, *NAMES)), None))


NANOSECONDS = [1_700_000_000_000_000_000 + 60 * (step % 5) for step in range(12)]
SOON = pd.to_datetime(pd.Series([1_700_000_000 + 7 * (step % 5) for step in range(12)]), unit="s")


@pytest.mark.parametrize(
    "times",
    [
        pa.array(NANOSECONDS, pa.int64()),
        pa.array([2**63 + 2**40 * (step % 5) for step in range(12)], pa.uint64()),
        pa.array([0.1 * (step % 5) for step in range(12)], pa.float32()),
        pa.array([20240131 + step % 3 - 2 for step in range(12)], pa.int32()),
        pa.Array.from_pandas(SOON.dt.tz_localize("Europe/Berlin")),
        pa.array(SOON.dt.strftime("%d.%m.%Y %H:%M:%S")),
    ],
    ids=lambda times: f"{times.type} {times[3]}",
)
def test_times_of_every_kind_are_read_as_in_memory(
    times: pa.Array, large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_AT_ONCE", 5)
    columns = {"user_id": [step % 2 for step in range(12)], "item_id": [1.0 * (step % 7) for step in range(12)]}
    monkeypatch.setattr(conversions, "LARGE", 10**9)
    folders, records = [], []
    for place, least in (("memory", 10**9), ("disk", 0)):
        monkeypatch.setattr(conversions, "LARGE", least)
        (tmp_path / place).mkdir()
        parquet.write_table(pa.table({**columns, "timestamp": times}), tmp_path / place / "log.parquet")
        folders.append(convert(str(tmp_path / place / "log.parquet"), *NAMES))
        records.append(read_record(folders[-1]))
    assert_same_data(*folders)
    for name in ("read_as", "first", "exact_duplicates"):
        assert records[0][name] == records[1][name]
    text = pd.read_csv(folders[0] / "log.inter", sep="\t")
    ordered = text.sort_values(["timestamp:float"], kind="stable").sort_values("user_id:token", kind="stable")
    whole = prepare(make_config(**options_of(folders[1])))[0]
    in_users = {user: ordered[ordered["user_id:token"] == int(user)] for user in whole.log.user_tokens[1:]}
    expected = np.concatenate([rows["timestamp:float"].to_numpy(dtype=float) for rows in in_users.values()])
    assert whole.log.read_at(TIMES, np.arange(len(whole.log))).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"timestamp": [*range(53), None]}, "log: 'timestamp' .* 1 of 54 .*row 54"),
        ({"timestamp": ["2024-01-01"] * 32 + ["7"] * 22}, "'timestamp' .* 22 of 54 .*'7' in row 33"),
        ({"user_id": ["a\tb"] * 54}, "'user_id'"),
        ({"item_id": [{"id": 1}] * 54}, "'item_id' .*struct"),
        ({"item_id": [None] * 54}, "all values of 'item_id'"),
        ({"user_id": ["a"] + [None] * 53, "item_id": [None] + ["b"] * 53}, "'user_id' and 'item_id'"),
    ],
    ids=str,
)
def test_a_large_log_that_cannot_be_used_is_refused_and_nothing_is_left(
    change: dict[str, Any], named: str, large: None, tmp_path: Path
) -> None:
    columns = {"user_id": [f"u{step % 9}" for step in range(54)], "item_id": ["i"] * 54, "timestamp": list(range(54))}
    log = write(pd.DataFrame({**columns, **change}), tmp_path / "log", files=1)
    with pytest.raises(UserError, match=named):
        convert(log, *NAMES)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_a_column_that_is_not_there_and_a_damaged_file_are_named(large: None, tmp_path: Path) -> None:
    log = write(log_of(), tmp_path / "log")
    with pytest.raises(UserError, match=r"'thing'.*--ITEM_ID_FIELD"):
        convert(log, "user_id", "thing", "timestamp")
    (tmp_path / "log" / "part-1.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(UserError, match=r"log/part-1\.parquet"):
        convert(log, *NAMES)


def test_a_data_set_that_is_not_split_yet_is_packed_without_its_log(large: None, tmp_path: Path) -> None:
    folder = convert(write(log_of(), tmp_path / "log"), *NAMES)
    config = make_config(**options_of(folder))
    whole, train, *_ = prepare(config)
    again = pickle.loads(pickle.dumps(create_dataset(config)))
    assert again.log.folder == whole.log.folder
    assert data_preparation(config, again)[0]._dataset.fingerprint() == train._dataset.fingerprint()
    assert len(pickle.dumps(whole.log)) < 1000


def test_processes_share_the_pages_of_one_file(large: None, tmp_path: Path) -> None:
    folder = convert(write(log_of(), tmp_path / "log"), *NAMES)
    whole, train, valid, test = prepare(make_config(**options_of(folder)))
    place = folder / "sorted"
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if f"{place}/items.int32" in line]
    for part in (train, valid, test):
        begin = part._dataset.sequences.items.data_ptr()
        assert any(int(line.split("-")[0], 16) == begin for line in mapped)
    assert whole.log.user_tokens.filename == place / "users.text"


def test_a_run_goes_on_with_the_log_that_it_began_with(large: None, tmp_path: Path) -> None:
    frame = log_of()
    log = write(frame, tmp_path / "log")
    result = run(model="BERT4Rec", dataset=log, options={**SMALL, "epochs": 1})
    with_more = log_of(seed=3).assign(timestamp=1_600_000_000)
    with_more.to_parquet(tmp_path / "log" / "part-0-earlier.parquet", index=False)
    again = run(resume=str(result.checkpoint), options={"epochs": 2})
    assert len(again.record["epochs"]) == 2
    with pytest.raises(UserError, match="'log-log'"):
        run(dataset=log, resume=str(result.checkpoint), options={"epochs": 3})
