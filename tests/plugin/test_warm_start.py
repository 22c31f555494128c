"""A run that begins with the weights of an older log knows its items by their ids, and is trained on the log of now."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec import UserError, append_items, checkpoints, compare, load, tune
from recbole_bert4rec.plugin.loading import item_tokens
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.training.record import read_record
from recbole_bert4rec.training.run import run
from tests.helpers.data import inter_writer
from tests.helpers.runs import QUIET, StopAfter
from tests.helpers.small import start

OLD = [(f"u{u}", f"i{(u * 5 + t * 7) % 30}", t) for u in range(60) for t in range(6 + u % 5)]
NEW = [
    (f"u{u}", f"j{(u + t) % 4}" if t % 2 else f"i{(u * 7 + t) % 30}", 50 + t) for u in range(0, 60, 3) for t in range(5)
]
NEW += [(f"v{u}", f"i{(u * 3 + t) % 30}", t) for u in range(9) for t in range(6)]
SMALL = {**QUIET, "hidden_size": 16, "inner_size": 24, "MAX_ITEM_LIST_LENGTH": 12, "epochs": 2, "learning_rate": 0.02}
FREE = {**QUIET, "metric_decimal_place": 8}


class Old:
    """A trained checkpoint, and the folder of its log."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.write = inter_writer(folder)
        data = self.write(OLD, "old")
        given = {**SMALL, **options, "data_path": data["data_path"], "checkpoint_dir": str(folder)}
        self.result = run(model="BERT4RecPlus", dataset="old", options=given)
        self.file = str(self.result.checkpoint)
        self.state = checkpoints.read(self.file)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Old:
    return Old(tmp_path_factory.mktemp("old"))


@pytest.fixture
def grown(old: Old) -> dict[str, Any]:
    """Options that load the log of now, whose items come in another order."""
    rows = [*OLD, *NEW]
    random.Random(3).shuffle(rows)
    return {**FREE, **old.write(rows, "now"), "warm_start": old.file}


def begun(old: Old, **options: Any) -> Any:
    """A trainer that has begun, before its first step, and its training data."""
    stored = {name: old.state["config"][name] for name in (*SMALL, "objective")}
    trainer, train, *_ = start(model="BERT4RecPlus", **{**stored, **options})
    trainer.checkpoints.begin(train.dataset)
    return trainer, train.dataset


def test_known_items_keep_their_weights_to_the_last_bit_and_all_else_is_taken_over(
    old: Old, grown: dict[str, Any]
) -> None:
    trainer, training = begun(old, **grown)
    before, now = old.state["state_dict"], trainer.model.state_dict()
    tokens = item_tokens(training)
    place = {token: number for number, token in enumerate(old.state["item_tokens"])}
    assert tokens[: len(place)] != old.state["item_tokens"]
    kept = [number for number, token in enumerate(tokens) if token in place]
    for name in ("encoder.item_embedding.weight", "encoder.output_bias"):
        assert torch.equal(now[name][kept], before[name][[place[tokens[number]] for number in kept]])
    assert torch.equal(now["encoder.item_embedding.weight"][-1], before["encoder.item_embedding.weight"][-1])
    others = before.keys() - {"encoder.item_embedding.weight", "encoder.output_bias", "item_digest"}
    assert "seen_bias" in others
    assert all(torch.equal(now[name], before[name]) for name in others)


def test_new_items_begin_as_the_mean_of_the_known_ones_beside_them_in_training(old: Old, grown: dict[str, Any]) -> None:
    trainer, training = begun(old, **grown)
    tokens, place = item_tokens(training), {t: n for n, t in enumerate(old.state["item_tokens"])}
    histories: dict[str, list[str]] = {}
    for user, item, _ in sorted([*OLD, *NEW], key=lambda row: row[2]):
        histories.setdefault(user, []).append(item)
    trained = [items[:-2] for items in histories.values()]  # without the items of validation and test
    embedding, bias = (old.state["state_dict"][f"encoder.{name}"] for name in ("item_embedding.weight", "output_bias"))
    new = [token for token in tokens[1:] if token not in place]
    assert len(new) == 4
    for token in new:
        beside = [
            place[other]
            for items in trained
            for at, item in enumerate(items)
            if item == token
            for other in items[max(0, at - 1) : at] + items[at + 1 : at + 2]
            if other in place
        ]
        row = tokens.index(token)
        torch.testing.assert_close(trainer.model.encoder.item_embedding.weight[row], embedding[beside].mean(0))
        torch.testing.assert_close(trainer.model.encoder.output_bias[row], bias[beside].mean())


def test_an_unchanged_log_in_another_order_is_ranked_as_by_the_checkpoint(old: Old) -> None:
    rows = OLD[:]
    random.Random(5).shuffle(rows)
    options = {**FREE, **old.write(rows, "shuffled"), "warm_start": old.file, "epochs": 0}
    result = run(options=options)
    assert result.record["warm_start"] == {"file": old.file, "kept": 30, "new": 0, "gone": 0}
    histories = [["i3", "i7"], ["i1"]]
    items = sorted(load(old.file).items)
    before, now = load(old.file).score(histories, items), load(result.checkpoint).score(histories, items)
    np.testing.assert_allclose(now["score"], before["score"], rtol=1e-5, atol=1e-6)
    assert result.test_result == pytest.approx(old.result.test_result, abs=1e-4)


def test_a_run_follows_the_file_in_what_shapes_weights_and_records_what_became_of_the_items(old: Old) -> None:
    known = {f"i{n}" for n in range(30)}
    without = [row for row in [*OLD, *NEW] if row[1] not in ("i4", "i5")]
    options = {**FREE, **old.write(without, "without"), "warm_start": old.file, "epochs": 1, "refit": "train+valid"}
    result = run(options=options)
    record = read_record(result.record_path)
    assert record["warm_start"] == {"file": old.file, "kept": len(known) - 2, "new": 4, "gone": 2}
    assert record["model"] == "BERT4RecPlus"
    assert (record["config"]["hidden_size"], record["config"]["epochs"]) == (16, 1)
    for file in (result.checkpoint, record["refit"]["checkpoint"]):
        assert checkpoints.read(file)["warm_start"] == record["warm_start"]


def test_a_resumed_run_ends_as_an_uninterrupted_one_and_does_not_read_the_file_again(
    old: Old, grown: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "moved.pth"
    file.write_bytes(Path(old.file).read_bytes())
    options = {**grown, "warm_start": str(file), "epochs": 3}
    whole = run(options={**options, "checkpoint_dir": "whole"})
    stopped = run(options=options, callbacks=[StopAfter(0)])
    file.unlink()
    resumed = run(resume=str(checkpoints.last_of(stopped.checkpoint)))
    assert resumed.record["warm_start"] == whole.record["warm_start"]
    ends = [checkpoints.read(checkpoints.last_of(result.checkpoint))["state_dict"] for result in (whole, resumed)]
    assert all(torch.equal(weight, ends[1][name]) for name, weight in ends[0].items())
    with pytest.raises(UserError, match=r"warm_start='.*moved\.pth'"):
        run(resume=str(stopped.checkpoint), options={"warm_start": old.file, "epochs": 9})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"hidden_size": 32, "n_layers": 1}, r"hidden_size=16.*n_layers=2"),
        ({"model": "SASRecPlus"}, r"model='BERT4RecPlus'.*'SASRecPlus'"),
        ({"selected_features": ["class"]}, "selected_features"),
        ({"model": "SASRec"}, "--warm_start"),
        ({"warm_start": "none.pth"}, r"none\.pth"),
        ({"warm_start": __file__}, r"test_warm_start\.py"),
        ({"dataset": None}, "--dataset"),
    ],
    ids=str,
)
def test_what_does_not_agree_is_refused_by_name_before_the_data_are_read(
    options: dict[str, Any], named: str, grown: dict[str, Any]
) -> None:
    asked = {**grown, "dataset": "absent", **options}
    with pytest.raises(UserError, match=named):
        run(model=asked.pop("model", None), dataset=asked.pop("dataset"), options=asked)


def test_searches_and_comparisons_refuse_a_warm_start(grown: dict[str, Any]) -> None:
    Path("space").write_text("learning_rate choice [0.001]\n")
    fixed = {name: grown[name] for name in ("warm_start", "data_path")}
    for ask in (
        lambda: tune("BERT4RecPlus", grown["dataset"], "space", fixed),
        lambda: compare(["BERT4RecPlus", "SASRecPlus"], grown["dataset"], options=fixed),
    ):
        with pytest.raises(UserError, match="`warm_start`"):
            ask()


class WithTable(BERT4Rec):
    """A model of one's own with a further weight for each item."""

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        self.table = torch.nn.Embedding(self.n_items, 3)


def test_further_weights_by_item_are_refused_unless_the_items_are_the_same(
    old: Old, grown: dict[str, Any], tmp_path: Path
) -> None:
    data = old.write(OLD, "old")
    first = run(model=WithTable, dataset="old", options={**SMALL, "data_path": data["data_path"], "epochs": 1})
    options = {**grown, "warm_start": str(first.checkpoint), "epochs": 1}
    options.pop("dataset")
    assert run(model=WithTable, dataset="old", options=options).record["warm_start"]["kept"] == 30
    with pytest.raises(UserError, match=r"'table\.weight'"):
        run(model=WithTable, dataset="now", options=options)


def test_a_log_without_a_known_item_is_refused(old: Old) -> None:
    data = old.write([(user, f"other {item}", time) for user, item, time in OLD], "foreign")
    with pytest.raises(UserError, match=r"'i\d+'.*'other i"):
        run(dataset=data["dataset"], options={**FREE, "data_path": data["data_path"], "warm_start": old.file})


KINDS = [(f"i{n}", f"kind{n % 5}", f"tag{n % 3} tag{n % 4}") for n in range(30)]


@pytest.fixture(scope="module")
def featured(tmp_path_factory: pytest.TempPathFactory) -> Old:
    folder = tmp_path_factory.mktemp("featured")
    write_items(folder / "data" / "old", KINDS)
    return Old(folder, selected_features=["kind", "tags"], load_col=FEATURED, epochs=1)


FEATURED = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "kind", "tags"]}


def write_items(folder: Path, rows: list[tuple[str, str, str]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["item_id:token\tkind:token\ttags:token_seq", *map("\t".join, rows)]
    (folder / f"{folder.name}.item").write_text("\n".join(lines) + "\n")


def test_features_are_matched_by_the_values_of_known_items_which_may_not_change(featured: Old, tmp_path: Path) -> None:
    data = featured.write([*OLD, *NEW], "now")
    more = [(f"j{n}", f"kind{n + 3}", "tag9 tag1 tag0") for n in range(4)]
    write_items(Path(data["data_path"]) / "now", [*more, *KINDS[::-1]])
    options = {"selected_features": ["kind", "tags"], "load_col": FEATURED, "warm_start": featured.file}
    trainer, training = begun(featured, **data, **options)
    before, ids = featured.state["state_dict"], training.field2token_id["kind"]
    of_kinds = trainer.model.encoder.features.tables[0].weight
    kept = {}
    for token, kind, _ in KINDS:
        number = featured.state["item_tokens"].index(token)
        kept[kind] = before["encoder.features.tables.0.weight"][before["encoder.features.values_0"][number, 0]]
    assert all(torch.equal(of_kinds[ids[kind]], row) for kind, row in kept.items())
    torch.testing.assert_close(of_kinds[ids["kind6"]], torch.stack(list(kept.values())).mean(0))
    assert not of_kinds[0].any()
    wanted = load(featured.file).score([["i3", "i7"]], ["i1", "i2"])["score"]
    trainer.checkpoints.describe(training, trainer.saved_model_file, may_differ=False)
    trainer._save_checkpoint(0, verbose=False)
    appended = append_items(featured.file, {"new": ["i1"]})
    assert not appended.ranker.encoder.features.get_buffer("values_1")[-2:].any()
    for model in (load(trainer.saved_model_file), appended):
        found = model.score([["i3", "i7"]], ["i1", "i2"])["score"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_an_item_whose_feature_has_changed_has_the_vector_of_the_new_value(featured: Old) -> None:
    data = featured.write([*OLD, *NEW], "moved")
    changed = [(token, "kind0" if token == "i1" else kind, tags) for token, kind, tags in KINDS]
    write_items(Path(data["data_path"]) / "moved", [*changed, *((f"j{n}", "kind1", "tag1") for n in range(4))])
    options = {"selected_features": ["kind", "tags"], "load_col": FEATURED, "warm_start": featured.file}
    trainer, training = begun(featured, **data, **options)
    features = trainer.model.encoder.features
    value = features.get_buffer("values_0")[training.field2token_id["item_id"]["i1"], 0]
    before = featured.state["state_dict"]["encoder.features.tables.0.weight"]
    kind0 = featured.state["feature_values"]["kind"].index("kind0")
    assert torch.equal(features.tables[0].weight[value], before[kind0])


def test_appended_items_score_the_mean_of_their_neighbours_and_no_other_score_changes(old: Old) -> None:
    before, now = load(old.file), append_items(old.file, {"new": ["i1", "i2", "i2"], "any": []}, device="cpu")
    before.ranker.memory = now.ranker.memory = None  # new items have followed nothing
    assert now.items == [*before.items, "new", "any"]
    history = [["i3", "i7"]]
    scores = dict(before.score(history, before.items)[["item_id", "score"]].itertuples(index=False))
    found = dict(now.score(history, now.items)[["item_id", "score"]].itertuples(index=False))
    assert [found[item] for item in before.items] == pytest.approx([scores[item] for item in before.items], abs=1e-5)
    assert found["new"] == pytest.approx((scores["i1"] + 2 * scores["i2"]) / 3, abs=1e-5)
    seen = float(before.ranker.seen_bias)  # which new items do not have
    assert found["any"] == pytest.approx((sum(scores.values()) - 2 * seen) / len(scores), abs=1e-5)


def test_an_appended_item_is_recommended_and_read_from_a_checkpoint_that_a_run_begins_with(
    old: Old, grown: dict[str, Any], tmp_path: Path
) -> None:
    vector = load(old.file).item_vectors().vectors[7]
    output = tmp_path / "more.pth"
    append_items(old.file, {6: ["i1"]}, {"j0": vector}, output=output)
    model = load(output)
    assert model.items[-2:] == ["6", "j0"]
    torch.testing.assert_close(model.ranker.encoder.item_embedding.weight[-2], torch.from_numpy(vector))
    assert {"6", "j0"} <= set(model.recommend([["j0", 6]], k=32, filter_viewed=False)["item_id"])
    result = run(options={**grown, "warm_start": str(output), "epochs": 1})
    assert result.record["warm_start"] == {"file": str(output), "kept": 31, "new": 3, "gone": 1}
    with pytest.raises(UserError, match="--warm_start="):
        run(resume=str(output))


@pytest.mark.parametrize(
    ("neighbours", "vectors", "named"),
    [
        (None, None, "`vectors`"),
        ({"i1": ["i2"]}, None, "'i1'"),
        ({"new": []}, {"new": [0.0] * 16}, "'new'"),
        ({"new": ["i1", "x"]}, None, "`neighbours`.*'x'"),
        ({"new": "i1"}, None, "`neighbours`"),
        (None, {"new": [np.nan] * 16}, "'new'"),
        (None, {"new": [0.0] * 15}, "'new' must be 16"),
    ],
)
def test_what_cannot_be_appended_is_refused_and_nothing_is_written(
    neighbours: Any, vectors: Any, named: str, old: Old, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=named):
        append_items(old.file, neighbours, vectors, output=tmp_path / "out.pth")
    assert not (tmp_path / "out.pth").exists()
