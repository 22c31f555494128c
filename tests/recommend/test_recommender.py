"""A loaded checkpoint ranks as the evaluation did, for anybody, alone as in a batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from recbole_bert4rec import Recommender, UserError, checkpoints, load, run
from tests.helpers.programs import BLOCKED, ROOT
from tests.helpers.runs import QUIET, make_config
from tests.helpers.trained import CHOICES, PROTOCOL, ROWS, SMALL, K, Trained, lists_of, trained


@pytest.mark.parametrize(
    ("choice", "seen_bias", "name"),
    [
        *((choice, -3.0, "BERT4Rec") for choice in CHOICES),
        *(({}, bias, "BERT4RecPlus") for bias in (-3.0, 3.0)),
        ({}, 3.0, "SASRecPlus"),
        ({"exclude_seen": True}, 3.0, "BERT4Rec"),
        ({"exclude_seen": True, "seen_bias": False}, 0.0, "BERT4Rec"),
    ],
    ids=str,
)
def test_the_recommended_items_are_those_of_the_test_item_by_item(
    choice: dict[str, Any], seen_bias: float, name: str, write_inter: Any
) -> None:
    found = trained(write_inter, seen_bias, name, **choice)
    result = found.trainer.evaluate(found.test, load_best_model=False)
    histories, targets = found.histories()
    loaded, excluded = load(found.file, "cpu", batch_size=7), bool(choice.get("exclude_seen"))
    table = loaded.recommend(histories, k=K, filter_viewed=excluded)
    best, compared = lists_of(table), 0
    for user, items in histories.items():
        if excluded and targets[user] in items:  # in evaluation a repeated target stays
            continue
        ranked = found.rankings.of_user[int(found.dataset.token2id("user_id", user))]
        assert best[user] == found.dataset.id2token("item_id", ranked).tolist()
        compared += 1
    assert compared >= 10
    evaluated = loaded.evaluate(histories, targets, topk=(K,))
    assert {key: round(evaluated[key], 4) for key in result} == pytest.approx(dict(result), abs=1e-4)
    some = list(histories.items())[::5]
    alone = pd.concat(loaded.recommend({user: items}, K, excluded) for user, items in some)
    together = table[table["user_id"].isin(dict(some))]
    assert alone["item_id"].tolist() == together["item_id"].tolist()
    np.testing.assert_allclose(alone["score"], together["score"], atol=1e-4)


def test_scores_ranks_and_vectors_say_the_same_as_recommendations(small: Trained, model: Recommender) -> None:
    histories, targets = small.histories()
    whole = model.recommend(histories, k=1000, filter_viewed=False)
    assert len(whole) == len(histories) * len(model.items)
    scores = model.score(histories, model.items)
    together = whole.merge(scores, on=["user_id", "item_id"])
    np.testing.assert_allclose(together["score_x"], together["score_y"], atol=1e-4)
    ranks = model.rank_of(histories, targets).merge(whole, on=["user_id", "item_id"])
    assert ranks["rank_x"].tolist() == ranks["rank_y"].tolist()
    one_unknown = model.evaluate(histories, {**targets, next(iter(histories)): "nope"}, topk=(1, 26))
    assert one_unknown["hit@26"] == pytest.approx(1 - 1 / len(histories))
    items, users = model.item_vectors(with_bias=True), model.user_vectors(histories, with_bias=True)
    assert items.ids.tolist() == model.items
    products = users.vectors @ items.vectors.T
    had = np.array([[item in history for item in model.items] for history in histories.values()])
    np.testing.assert_allclose(products - 3.0 * had, scores["score"].to_numpy().reshape(products.shape), atol=1e-4)
    assert model.item_vectors().vectors.shape == (len(model.items), 16)


def test_histories_may_be_lists_a_dictionary_a_column_or_a_table_of_any_library(model: Recommender) -> None:
    lists = [["i3", "i5", "i8"], ["i1"], []]
    wanted = model.recommend(lists, k=4)
    assert list(wanted.columns) == ["user_id", "item_id", "rank", "score"]
    assert wanted["user_id"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert wanted["rank"].tolist() == [1, 2, 3, 4] * 3
    by_user = model.recommend(dict(zip("abc", lists, strict=True)), k=4)
    assert lists_of(by_user) == dict(zip("abc", lists_of(wanted).values(), strict=True))
    frame = pd.DataFrame(
        {"user_id": ["b", "a", "a", "a"], "item_id": ["i1", "i8", "i3", "i5"], "timestamp": [9, 3, 1, 2]}
    )
    of_frame = lists_of(model.recommend(frame, k=np.uint8(4)))
    assert list(of_frame) == ["b", "a"]
    assert of_frame == {name: lists_of(by_user)[name] for name in "ba"}
    in_order = frame.sort_values("timestamp").drop(columns="timestamp")
    assert lists_of(model.recommend(in_order, k=4)) == of_frame
    as_dates = frame.assign(timestamp=pd.to_datetime(frame["timestamp"], unit="D"))
    column = pd.Series({"b": ["i1"], "a": ["i3", "i5", "i8"]})
    for same in (as_dates, pa.Table.from_pandas(frame), column):
        assert lists_of(model.recommend(same, k=4)) == of_frame


def test_numbers_are_ids_as_the_log_writes_them(write_inter: Any) -> None:
    rows = [(u, (3 * u + t) % 9 + 100, t) for u in range(9) for t in range(5)]
    config = make_config(**write_inter(rows), **{**SMALL, **PROTOCOL, "topk": [3], "valid_metric": "MRR@3"})
    loaded = load(Trained(config).file)
    wanted = loaded.recommend([["101", "104"]], k=3)
    for given in ([[101, 104]], [[101.0, 104.0]], [np.array([101, 104])], [(101, "104")]):
        pd.testing.assert_frame_equal(loaded.recommend(given, k=3), wanted)
    frame = pd.DataFrame({"user_id": [5, 5], "item_id": [101, 104]})
    assert loaded.recommend(frame, k=3)["item_id"].tolist() == wanted["item_id"].tolist()


def test_without_a_known_item_the_most_frequent_of_training_come_first(
    small: Trained, model: Recommender, caplog: pytest.LogCaptureFixture
) -> None:
    counts = small.train.dataset.training_counts().numpy()
    table = model.recommend([[], ["nope"], ["i1"]], k=5)
    for user in (0, 1):
        rows = table[table["user_id"] == user]
        found = small.dataset.token2id("item_id", rows["item_id"].to_numpy())
        assert counts[found].tolist() == sorted(counts[1:], reverse=True)[:5]
        np.testing.assert_allclose(rows["score"], np.log(counts[found] + 1.0), rtol=1e-6)
    popular = lists_of(table)[0]
    assert lists_of(model.recommend({"a": []}, k=3, exclude={"a": popular[1:3]})) == {"a": [popular[0], *popular[3:]]}
    some = [popular[place] for place in (4, 0, 1)]
    assert lists_of(model.recommend([[]], items_to_recommend=some))[0] == [*some[1:], some[0]]
    assert "1 of 2" in caplog.text
    assert "'nope'" in caplog.text
    assert model.rank_of([[]], table["item_id"][:1])["rank"].tolist() == [1]
    assert not model.user_vectors([[]]).vectors.any()


def test_what_may_be_recommended_can_be_narrowed(model: Recommender) -> None:
    history = {"a": ["i1", "i2", "i3"], "b": ["i4"]}
    everything = lists_of(model.recommend(history, k=100, filter_viewed=False))
    left = lists_of(model.recommend(history, k=100, filter_viewed=True))
    assert left == {user: [item for item in everything[user] if item not in history[user]] for user in history}
    some = ["i9", "i2", "i7", "i4"]
    chosen = lists_of(model.recommend(history, k=100, filter_viewed=True, items_to_recommend=some, exclude=["i7"]))
    assert chosen == {user: [item for item in left[user] if item in {"i9", "i2", "i4"}] for user in history}
    own = lists_of(model.recommend(history, k=3, filter_viewed=False, exclude={"b": everything["b"][:2]}))
    assert own == {"a": everything["a"][:3], "b": everything["b"][2:5]}
    assert model.recommend(history, exclude={"i7"}).equals(model.recommend(history, exclude=["i7"]))
    assert model.recommend(history, items_to_recommend=["i4"], filter_viewed=True)["user_id"].tolist() == ["a"]


@pytest.mark.parametrize(
    ("seen_bias", "options", "left_out"), [(-0.4, {}, True), (0.4, {}, False), (0.4, {"exclude_seen": True}, True)]
)
def test_auto_leaves_out_what_the_metric_left_out_or_else_follows_what_the_model_learnt(
    seen_bias: float, options: dict[str, Any], left_out: bool, write_inter: Any
) -> None:
    loaded = load(trained(write_inter, seen_bias, **options).file)
    assert loaded.viewed.left_out is left_out
    history = [[f"i{n}" for n in range(20)]]
    again = set(loaded.recommend(history, k=20)["item_id"]) & set(history[0])
    assert bool(again) is not left_out


def test_unknown_items_are_left_out_of_lists_with_one_warning(
    model: Recommender, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        known = lists_of(model.recommend([["i1"]], items_to_recommend=["i4", "i5", "i6"], exclude=["i5"]))
        some = lists_of(model.recommend([["i1"]], items_to_recommend=["i4", "i5", "i6", "new"], exclude=["i5", "x"]))
        assert some == known
        assert model.recommend({"a": ["i1"]}, exclude={"a": ["x"]}).equals(model.recommend({"a": ["i1"]}))
    of_lists, of_exclude = caplog.messages
    assert all(words in of_lists for words in ("items_to_recommend", "1 of 4", "'new'"))
    assert all(words in of_exclude for words in ("exclude", "1 of 2", "'x'"))


def test_similar_items_have_the_highest_cosine_and_are_not_the_item(model: Recommender) -> None:
    ids, vectors = model.item_vectors()
    cosines = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    np.fill_diagonal(cosines, -np.inf)
    table = model.similar_items(["i3", "i20"], k=4)
    assert table["target_item_id"].tolist() == ["i3"] * 4 + ["i20"] * 4
    for item, rows in table.groupby("target_item_id"):
        own = cosines[ids.tolist().index(item)]
        assert rows["item_id"].tolist() == ids[np.argsort(-own)[:4]].tolist()
        np.testing.assert_allclose(rows["score"], np.sort(own)[::-1][:4], atol=1e-5)


@pytest.mark.parametrize("choice", [{}, {"objective": "next"}], ids=str)
def test_an_explanation_says_what_the_score_would_be_without_an_item(choice: dict[str, Any], write_inter: Any) -> None:
    loaded = load(trained(write_inter, **choice).file)
    history = ["i9", "i2", "i7", "i4", "i2", "i5", "i1"]
    for item in ("i6", "i2", "i9"):
        found = loaded.explain(history, item)
        everything = range(len(history))
        score = loaded.score([history], [item])["score"][0]
        assert found.score == pytest.approx(score, abs=1e-4)
        assert len(found.table) == (5 if choice.get("objective") else 4)
        assert found.table["item"].tolist() == history[-len(found.table) :]
        for row in found.table.itertuples():
            kept = [n for n in everything if n != len(history) - 1 - row.position]
            without = loaded.score([[history[n] for n in kept]], [item])["score"][0]
            assert row.influence == pytest.approx(score - without, abs=1e-4)


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_a_run_recommends_as_its_checkpoint_does_from_everybodys_history_to_the_last(
    exclude_seen: bool, write_inter: Any
) -> None:
    options = {**QUIET, **write_inter(ROWS), **SMALL, "exclude_seen": exclude_seen, "seen_bias": False}
    result = run(options={**options, "keep_histories": True}, recommend="top.csv", k=4)
    model = load(result.checkpoint, device="cpu")
    frame = pd.DataFrame(ROWS, columns=["user_id", "item_id", "timestamp"])
    tables = model.recommend(k=4), model.recommend(frame, k=4)
    pd.testing.assert_frame_equal(pd.read_csv("top.csv"), tables[0], check_dtype=False, rtol=1e-5)
    by_rank = [table.sort_values(["user_id", "rank"], ignore_index=True) for table in tables]
    pd.testing.assert_frame_equal(*by_rank, check_exact=False)
    assert model.evaluate() == pytest.approx(model.evaluate(frame), abs=1e-6)
    assert model.viewed.left_out is exclude_seen


WRONG = [
    (lambda m: m.recommend([["i1"]], k=0), "`k`"),
    (lambda m: m.recommend([["i1"]], filter_viewed="yes"), "`filter_viewed`.*'yes'"),
    (lambda m: m.recommend(["i1", "i2"]), "'i1'"),
    (lambda m: m.recommend({"u": "i1"}), "`histories`.*'i1'"),
    (lambda m: m.recommend(3), "`histories`"),
    (lambda m: m.recommend([{"i3", "i4"}]), "`histories`.* a set"),
    (lambda m: m.recommend([[b"i3"]]), "ids.*bytes"),
    (lambda m: m.recommend([[torch.tensor(3)]]), "ids.*Tensor"),
    (lambda m: m.recommend(), "keep_histories"),
    (lambda m: m.recommend([["i1"]], items_to_recommend=["x"]), "`items_to_recommend`.* 1 of 1 .*'x'"),
    (lambda m: m.recommend([["i1"]], exclude="i1"), "`exclude`"),
    (lambda m: m.recommend([["i1"]], exclude=pd.DataFrame({"item_id": ["i1"]})), "DataFrame"),
    (lambda m: m.recommend([["i1"]], items_to_recommend={"i1": 3}), "dict"),
    (lambda m: m.recommend([*pd.DataFrame({"user_id": ["a"], "item_id": ["i1"]}).itertuples()]), "Pandas"),
    (lambda m: m.recommend({"user_id": ["a"], "item_id": ["i1"]}), "columns"),
    (lambda m: m.recommend(pd.Series([["i1"], ["i2"]], index=["a", "a"])), "`histories`.*'a'"),
    (lambda m: m.recommend({"a": ["i1"]}, exclude={"b": ["i1"]}), "`exclude`.*'b'"),
    (lambda m: m.recommend([["i1"]], items_to_recommend=["i1"], exclude=["i1"]), "leave nothing"),
    (lambda m: m.recommend(pd.DataFrame({"user_id": [1], "item_id": [1], "timestamp": ["soon"]})), "'timestamp' "),
    (lambda m: m.recommend(pd.DataFrame({"user_id": [1]})), "'item_id'"),
    (lambda m: m.recommend(pd.DataFrame({"user_id": [None], "item_id": [1]})), "1 values of 'user_id'"),
    (lambda m: m.score([["i1"]], ["x"]), "`items`.* 1 of 1 "),
    (lambda m: m.rank_of([["i1"], ["i2"]], ["i1"]), "`items`.* 2 .* 1"),
    (lambda m: m.rank_of({"a": ["i1"], "b": []}, {"a": "i1"}), "`items`.*'b'"),
    (lambda m: m.rank_of([["i1"]], pd.DataFrame({"item_id": ["i1"]})), "`items`.*DataFrame"),
    (lambda m: m.evaluate([["i1"]]), "no history"),
    (lambda m: m.explain(["x"], "i1"), "`history`"),
]


@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_answered_is_refused_in_one_line(model: Recommender) -> None:
    for ask, named in WRONG:
        with pytest.raises(UserError, match=named) as error:
            ask(model)
        assert "\n" not in str(error.value)


def test_loading_draws_no_random_numbers_and_the_model_stays_while_its_file_is_written_over(write_inter: Any) -> None:
    small = trained(write_inter, model="BERT4RecPlus")
    histories = small.histories()[0]
    torch.manual_seed(1)
    drawn = torch.rand(3)
    torch.manual_seed(1)
    model = load(small.file)
    wanted = model.recommend(histories)
    pd.testing.assert_frame_equal(load(small.file).recommend(histories), wanted)
    assert torch.equal(torch.rand(3), drawn)
    with open(small.file, "r+b") as file:
        file.write(bytes(Path(small.file).stat().st_size))
    pd.testing.assert_frame_equal(model.recommend(histories), wanted)


def test_the_logit_adjustment_may_be_chosen_anew(small: Trained) -> None:
    plain, adjusted = load(small.file), load(small.file, logit_adjustment=2.0)
    counts = small.train.dataset.training_counts()[1:].numpy()
    before, after = (one.score([["i1", "i2"]], one.items)["score"].to_numpy() for one in (plain, adjusted))
    np.testing.assert_allclose(before - after, 2.0 * np.log(counts + 1.0), atol=1e-4)
    for value in (1e30, float("nan"), -1):
        with pytest.raises(UserError, match="`logit_adjustment`"):
            load(small.file, logit_adjustment=value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_no_finite_numbers_are_refused_where_they_are_loaded_or_asked_for(
    value: float, small: Trained, model: Recommender
) -> None:
    state = checkpoints.read(small.file)
    name = next(name for name, weight in state["state_dict"].items() if weight.is_floating_point())
    state["state_dict"][name].view(-1)[-1] = value
    checkpoints.write("odd.pth", state)
    with pytest.raises(UserError, match=rf"odd\.pth.*'{name}'"):
        load("odd.pth")
    model.ranker.encoder.output_bias[3] = torch.nan
    for ask in (model.recommend, model.evaluate):
        with pytest.raises(UserError, match="scores"):
            ask(small.histories()[0])


def test_ranks_are_those_of_a_naive_twin_with_and_without_seen_items(small: Trained, model: Recommender) -> None:
    model.ranker.encoder.output_bias.copy_(model.ranker.encoder.output_bias.round())
    model.ranker.encoder.item_embedding.weight.zero_()  # scores are biases: many are equal
    histories, targets = small.histories()
    scores = model.score(histories, model.items)
    for filter_viewed in (False, True):
        ranks = model.rank_of(histories, targets, filter_viewed=filter_viewed)["rank"].tolist()
        for (user, items), rank in zip(histories.items(), ranks, strict=True):
            own = scores[scores["user_id"] == user].set_index("item_id")["score"]
            others = own.drop({targets[user], *(items if filter_viewed else ())})
            above, equal = (others > own[targets[user]]).sum(), (others == own[targets[user]]).sum()
            assert rank == 1 + above + np.ceil(equal / 2)


def test_a_process_with_neither_recbole_nor_data_recommends(small: Trained, model: Recommender) -> None:
    histories = list(small.histories()[0].values())[:3]
    program = f"""{BLOCKED}
from recbole_bert4rec import load
import recbole_bert4rec.recommend.bulk
print(load({str(Path(small.file).resolve())!r}).recommend({histories!r}, k=3)["item_id"].tolist())
print("recbole" in sys.modules, "matplotlib" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    wanted = model.recommend(histories, k=3)["item_id"].tolist()
    assert done.stdout.splitlines() == [str(wanted), "False False"], done.stderr


def test_what_is_by_user_may_stand_in_any_order_and_a_columns_index_names_users(model: Recommender) -> None:
    histories, targets = {"ann": ["i1"], "bob": ["i2"]}, pd.Series({"bob": "i5", "ann": "i4"})
    wanted = model.rank_of(histories, targets.to_dict())
    assert model.rank_of(histories, targets).equals(wanted)
    assert wanted["item_id"].tolist() == ["i4", "i5"]
    assert model.rank_of(pd.Series(histories), targets).equals(wanted)
    everything = lists_of(model.recommend(histories, k=30, filter_viewed=False))
    first = {user: items[:2] for user, items in everything.items()}
    for exclude in (first, dict(reversed(first.items()))):
        rest = lists_of(model.recommend(histories, k=3, filter_viewed=False, exclude=exclude))
        assert rest == {user: items[2:5] for user, items in everything.items()}
    by_order = model.rank_of(list(histories.values()), pd.Series(["i4", "i5"], index=[1, 0]))
    assert by_order["item_id"].tolist() == ["i4", "i5"], "without names the order counts"
    excluded = model.recommend(histories, k=3, exclude=pa.chunked_array([["i5", "i6"]]))
    assert excluded.equals(model.recommend(histories, k=3, exclude=["i5", "i6"]))
