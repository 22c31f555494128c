"""A large log is sorted on the disk and mapped, and a run on it is the run in memory, bit by bit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recbole.data import create_dataset, data_preparation
from recbole.quick_start import load_data_and_model

import recbole_bert4rec.logs.convert as conversions
import recbole_bert4rec.logs.events as events
from recbole_bert4rec.checkpoints import read
from recbole_bert4rec.experiments.compare import compare
from recbole_bert4rec.logs.conversion import folder_read, read_record
from recbole_bert4rec.logs.convert import convert
from recbole_bert4rec.logs.formats import Reading
from recbole_bert4rec.logs.mapped import TIMES as TIMES_OF_LOG
from recbole_bert4rec.logs.mapped import MappedLog, is_mapped
from recbole_bert4rec.plugin.mapped import MappedDataset
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import load_data
from recbole_bert4rec.training.run import run
from recbole_bert4rec.training.screen import parts_text
from tests.helpers.runs import QUIET, make_config, prepare
from tests.helpers.small import equal

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


def both(frame: pd.DataFrame, place: Path, **reading: Any) -> tuple[Path, Path]:
    """Convert a log in memory and on the disk; return the folders of both."""
    folders = []
    for name, least in (("memory", 10**9), ("disk", 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(conversions, "LARGE", least)
            folders.append(convert(write(frame, place / name / "log"), *NAMES, Reading(**reading)))
    return folders[0], folders[1]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One log, converted in memory and on the disk."""
    return both(log_of(), tmp_path_factory.mktemp("logs"))


def options_of(folder: Path, **more: Any) -> dict[str, Any]:
    return {"dataset": folder.name, "data_path": str(folder.parent), "exact_time": True, **SMALL, **more}


def assert_same_data(memory: Path, disk: Path, **options: Any) -> None:
    """Check that training, validation and test read the same from both."""
    found = [load_data(make_config(**options_of(folder, **options))) for folder in (memory, disk)]
    assert parts_text(found[0]) == parts_text(found[1])
    assert found[0].interactions == found[1].interactions
    assert np.array_equal(found[0].period, found[1].period)
    one, other = (data.dataset for data in found)
    assert isinstance(other, MappedDataset)
    for field in NAMES[:2]:
        assert np.array_equal(one.field2id_token[field], other.field2id_token[field])
        assert one.field2token_id[field] == dict(other.field2token_id[field])
    assert torch.equal(one.sequences.items, other.sequences.items)
    assert torch.equal(one.sequences.offsets, other.sequences.offsets)
    for part in ("train", "valid", "test"):
        ours, theirs = (getattr(data, part)._dataset for data in found)
        assert ours.fingerprint() == theirs.fingerprint() if len(ours) else not len(theirs)
        if part == "train":
            assert torch.equal(ours.training_counts(), theirs.training_counts())
        else:
            assert equal(
                ours.inter_feat.interaction, {name: theirs.inter_feat[name] for name in ours.inter_feat.columns}
            )


TIMES = [1_700_000_000_000_000_000 + 60 * (step % 5) for step in range(40)]
WHOLE_FLOATS = pd.Series([0.1 * (step % 5) for step in range(40)], dtype="float32")
DATES = pd.to_datetime(pd.Series([1_700_000_000 + 7 * (step % 5) for step in range(40)]), unit="s")


@pytest.mark.parametrize(
    "times", [TIMES, WHOLE_FLOATS, DATES.dt.strftime("%d.%m.%Y %H:%M:%S")], ids=["int", "float", "date"]
)
def test_times_of_every_kind_are_read_as_in_memory(times: Any, tmp_path: Path) -> None:
    rows = {"user_id": [step % 4 for step in range(40)], "item_id": [1.0 * (step % 7) for step in range(40)]}
    memory, disk = both(pd.DataFrame({**rows, "timestamp": times}), tmp_path)
    assert_same_data(memory, disk)
    text = pd.read_csv(memory / "log-log.inter", sep="\t").sort_values("timestamp:float", kind="stable")
    log = MappedLog(disk / "sorted")
    wanted = [text[text["user_id:token"] == int(user)]["timestamp:float"] for user in log.user_tokens[1:]]
    assert log.read_at(TIMES_OF_LOG, np.arange(len(log))).tolist() == [*map(float, np.concatenate(wanted))]


@pytest.mark.parametrize("refit", ["train+valid", "all"])
def test_a_run_on_a_large_log_is_the_run_in_memory(refit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, more = [], {"metrics": ["MRR", "NDCG", "AveragePopularity", "ItemCoverage"], "exclude_seen": True}
    more |= {"refit": refit, "keep_histories": True}
    for place, least in (("memory", 10**9), ("disk", 0)):
        monkeypatch.setattr(conversions, "LARGE", least)
        options = {**SMALL, **more, "checkpoint_dir": str(tmp_path / place / "saved")}
        asked = {"recommend": str(tmp_path / f"{place}.csv"), "ranks": str(tmp_path / f"{place}.parquet")}
        found.append(run(model="BERT4Rec", dataset=write(log_of(), tmp_path / place / "log"), options=options, **asked))
    memory, disk = found
    assert (tmp_path / "memory.csv").read_text() == (tmp_path / "disk.csv").read_text()
    assert memory.test_result == disk.test_result
    assert memory.best_valid_result == disk.best_valid_result
    assert memory.record["refit"]["test_result"] == disk.record["refit"]["test_result"]
    losses = [[epoch["train_loss"] for epoch in result.record["epochs"]] for result in found]
    assert losses[0] == losses[1]
    ours, theirs = (read(result.checkpoint) for result in found)
    for name in ("fingerprint", "item_tokens", "item_counts", "histories", "state_dict"):
        assert equal(ours[name], theirs[name]), name
    assert equal(*(read(result.record["refit"]["checkpoint"])["state_dict"] for result in found))
    assert isinstance(load_data_and_model(str(disk.checkpoint))[2], MappedDataset)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), users=st.integers(8, 30), drop=st.booleans())
def test_any_log_is_sorted_as_in_memory_and_counted_rightly(
    seed: int, users: int, drop: bool, large: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    frame = log_of(users, 9, seed, most=6)
    memory, disk = both(frame, tmp_path_factory.mktemp("logs"), drop_duplicates=drop)
    assert_same_data(memory, disk)
    records = [{**read_record(folder)} for folder in (memory, disk)]
    for record in records:
        for name in ("made_from", "made_at", "digest", "sorted"):
            record.pop(name, None)
    assert records[0] == records[1]
    kept = frame[frame["user_id"].notna() & (frame["item_id"] != " ")]
    assert records[0]["exact_duplicates"] == kept.duplicated().sum()
    kept = kept.drop_duplicates() if drop else kept
    assert records[0]["repeats"] == kept.duplicated(["user_id", "item_id"]).sum()
    assert records[0]["interactions"] == len(kept)
    assert [records[0][name] for name in ("users", "items")] == kept[["user_id", "item_id"]].nunique().tolist()


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
def test_options_of_data_mean_the_same(options: dict[str, Any], folders: tuple[Path, Path]) -> None:
    assert_same_data(*folders, **options)


def test_features_of_items_are_read_beside_a_large_log(large: None, tmp_path: Path) -> None:
    folders = both(log_of(), tmp_path)
    rows = [f"i{number}\tkind{number % 4}\tbig small" for number in (*range(24, -1, -1), 77)]
    header, columns = "item_id:token\tkind:token\tsizes:token_seq", ["item_id", "kind", "sizes"]
    options = {"load_col": {"inter": list(NAMES), "item": columns}, "selected_features": columns[1:]}
    for folder in folders:
        (folder / f"{folder.name}.item").write_text("\n".join([header, *rows]))
    assert_same_data(*folders, **options)
    assert_same_data(*folders, **options, item_inter_num_interval="[1,inf)")
    one, other = (prepare(make_config(**options_of(folder, **options)))[1]._dataset for folder in folders)
    for ours, theirs in zip(one.item_features(columns[1:]), other.item_features(columns[1:]), strict=True):
        assert torch.equal(ours[0], theirs[0])
        assert ours[1] == theirs[1]
    for folder in folders:
        (folder / f"{folder.name}.item").write_text("\n".join([header, *rows[5:]]))
    with pytest.raises(UserError, match=r"`filter_inter_by_user_or_item` .* 3 items"):
        prepare(make_config(**options_of(folders[1], **options)))
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
    options: dict[str, Any], named: str, folders: tuple[Path, Path]
) -> None:
    with pytest.raises(UserError, match=named):
        prepare(make_config(**options_of(folders[1], **options)))


def test_a_large_log_is_packed_by_its_name_and_its_pages_are_shared(folders: tuple[Path, Path]) -> None:
    place, config = folders[1] / "sorted", make_config(**options_of(folders[1]))
    whole, *loaders = prepare(config)
    again = pickle.loads(pickle.dumps(create_dataset(config)))
    assert again.log.folder == whole.log.folder
    assert data_preparation(config, again)[0]._dataset.fingerprint() == loaders[0]._dataset.fingerprint()
    assert len(pickle.dumps(whole.log)) < 1000
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if f"{place}/items.int32" in line]
    for part in loaders:
        begin = part._dataset.sequences.items.data_ptr()
        assert any(int(line.split("-")[0], 16) == begin for line in mapped)
    assert whole.log.user_tokens.filename == place / "users.text"


@pytest.mark.parametrize(
    ("module", "step", "full"),
    [
        (events, "code_ids", False),
        (events, "_write_tokens", True),
        (conversions, "_digest", False),
        (conversions, "keep_made", True),
    ],
)
def test_a_sorting_that_was_not_finished_leaves_nothing(
    module: Any, step: str, full: bool, large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_other_models_and_comparisons_have_an_atomic_file_and_read_no_sorted_one(large: None, tmp_path: Path) -> None:
    log = write(log_of(), tmp_path / "data" / "log")
    folder = convert(log, *NAMES)
    for model in ("GRU4Rec", "GRU4RecPlus", "Transitions", "Pop"):
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


def test_a_large_log_is_sorted_once_and_its_earlier_conversion_is_refused(
    large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, said = log_of(), list[str]()
    log = write(frame, tmp_path / "log")
    monkeypatch.setattr(conversions, "LARGE", len(frame))
    small = read_record(convert(log, *NAMES))
    assert (tmp_path / "log-log" / "log-log.inter").is_file()
    monkeypatch.setattr(conversions, "LARGE", len(frame) - 1)
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
    frame.to_csv(tmp_path / "text.csv", index=False)
    assert read_record(convert(str(tmp_path / "text.csv"), *NAMES))["sorted"] == first
    frame[:50].to_parquet(tmp_path / "log" / "part-9.parquet")
    assert read_record(convert(log, *NAMES))["sorted"] != first
    with pytest.raises(UserError, match="log-log"):
        folder_read(str(folder), first)
    monkeypatch.setattr(conversions, "LARGE", 10**9)
    (tmp_path / "log" / "part-0.parquet").touch()
    assert (convert(log, *NAMES) / "log-log.inter").is_file()
    assert not (folder / "sorted").exists()


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
