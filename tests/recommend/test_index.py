"""An index finds what a loop over its lists finds, scores exactly, keeps every rule, and belongs to one model."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recbole_bert4rec import Recommender, UserError, load
from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.core.ranker import Catalogue
from recbole_bert4rec.recommend.index import ItemIndex, divide
from recbole_bert4rec.system import extras
from tests.helpers.trained import ROWS, Trained, lists_of, trained

pytest.importorskip("faiss")
FRAME = pd.DataFrame(ROWS, columns=["user_id", "item_id", "timestamp"])


@pytest.fixture
def small(write_inter: Any) -> Trained:
    return trained(write_inter, keep_histories=True)


def with_lists(model: Recommender, probes: int) -> Recommender:
    """The model with an index in which so many lists are searched; 0 for all."""
    index = model.build_index(recall=0.9, k=5, histories=FRAME)
    index.choice = index.choice._replace(probes=probes or len(index.lists.centres))
    return model


def naive(
    index: ItemIndex,
    catalogue: Catalogue,
    allowed: list[int],
    probes: int,
    vector: Tensor,
    k: int,
    added: dict[int, float],
) -> list[float]:
    """The best scores of one history, by a loop."""
    query = torch.cat([vector, torch.ones(1)]).numpy()
    near = np.argsort(-(index.lists.centres @ query), kind="stable")[:probes]
    inside = [item for item in allowed if index.lists.list_of[item - 1] in near and item not in added]
    changed = [item for item in allowed if added.get(item, -np.inf) > -np.inf]
    looked_at = [*inside, *changed] if len(inside) + len(changed) >= k else allowed
    scores = [
        float(catalogue.vectors[item] @ vector + catalogue.bias[item]) + added.get(item, 0.0) for item in looked_at
    ]
    return sorted((score for score in scores if score > -np.inf), reverse=True)[:k]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 90), st.integers(1, 6), st.integers(1, 12), st.integers(1, 40), st.booleans(), st.integers(0, 2**16)
)
def test_what_is_found_is_what_a_loop_over_the_lists_finds(
    n: int, rows: int, k: int, probes: int, some: bool, seed: int
) -> None:
    draw = torch.Generator().manual_seed(seed)
    whole = Catalogue(torch.randn(n + 1, 3, generator=draw), torch.randn(n + 1, generator=draw))
    index = ItemIndex(whole, divide(whole, 3.0), "")
    probes = min(probes, len(index.lists.centres))
    allowed = torch.arange(1, n + 1)
    if some:
        allowed = allowed[torch.rand(n, generator=draw) < 0.7]
        allowed = allowed if len(allowed) else torch.tensor([n])
    k = min(k, len(allowed))
    ids = torch.cat([torch.zeros(1, dtype=torch.int64), allowed])
    catalogue = Catalogue(whole.vectors[ids], whole.bias[ids], ids) if some else whole
    vectors = torch.randn(rows, 3, generator=draw)
    removed, moved = (
        torch.randint(0, 2, (rows, n + 1), generator=draw).bool() & (torch.rand(rows, 1, generator=draw) < 0.6)
        for _ in range(2)
    )
    removed[:, 0] = moved[:, 0] = False
    additions = torch.rand(int(moved.sum()), generator=draw)
    changes = [
        (*removed.nonzero(as_tuple=True), -torch.inf),
        (*moved.nonzero(as_tuple=True), torch.tensor(0.75)),
        (*moved.nonzero(as_tuple=True), additions),
    ]
    added_to = torch.zeros(rows, n + 1).index_put(moved.nonzero(as_tuple=True), additions + 0.75)
    scores, items = index.over(catalogue, probes).best(vectors, k, changes)
    for row in range(rows):
        added = {int(item): float(added_to[row, item]) for item in moved[row].nonzero()}
        added |= {int(item): -np.inf for item in removed[row].nonzero()}
        wanted = naive(index, whole, allowed.tolist(), probes, vectors[row], k, added)
        got = scores[row][scores[row] > -torch.inf]
        np.testing.assert_allclose(got, wanted, atol=1e-5)
        named = items[row, : len(got)]
        assert len(set(named.tolist())) == len(got)
        own = whole.vectors[named] @ vectors[row] + whole.bias[named]
        own = own + torch.tensor([added.get(item, 0.0) for item in named.tolist()])
        np.testing.assert_allclose(got, own, atol=1e-5)


@pytest.mark.parametrize(
    ("choice", "seen_bias"),
    [
        ({}, -3.0),
        ({"objective": "next"}, 3.0),
        ({"objective": "prefix"}, -3.0),
        ({"logit_adjustment": 0.7, "output_projection": True}, -3.0),
        ({"seen_bias": False}, 0.0),
        ({"memory": True}, 3.0),
        ({"selected_features": ["class", "year"], "exclude_seen": True}, 3.0),
    ],
    ids=str,
)
def test_with_all_lists_every_model_recommends_as_without_an_index(
    choice: dict[str, Any], seen_bias: float, write_inter: Any
) -> None:
    file = trained(write_inter, seen_bias, **choice).file
    exact, indexed = load(file, "cpu"), with_lists(load(file, "cpu"), 0)
    asked: list[dict[str, Any]] = [
        {"k": 7},
        {"k": 30, "filter_viewed": True},
        {"k": 4, "filter_viewed": False, "exclude": ["i3", "i9"]},
        {"k": 4, "exclude": {"u3": ["i3", "i9"]}, "diversity": 0.3},
        {"k": 3, "items_to_recommend": ["i3", "i9", "i11", "i20"]},
    ]
    for how in asked:
        pd.testing.assert_frame_equal(indexed.recommend(FRAME, **how), exact.recommend(FRAME, **how), atol=1e-4)


def test_with_one_list_no_rule_is_broken_and_scores_are_the_model_s(small: Trained) -> None:
    model = with_lists(load(small.file, "cpu"), 1)
    table = model.recommend(k=5, filter_viewed=True, exclude=["i3"])
    had = FRAME.groupby("user_id")["item_id"].agg(set)
    for user, items in lists_of(table).items():
        assert len(set(items)) == min(5, len({*model.items} - had[user] - {"i3"}))
        assert not {*items} & (had[user] | {"i3"})
    scores = model.score(FRAME, model.items)
    together = table.merge(scores, on=["user_id", "item_id"])
    assert len(together) == len(table)
    np.testing.assert_allclose(together["score_x"], together["score_y"], atol=1e-4)
    assert lists_of(model.recommend([[]], k=4)) == lists_of(load(small.file, "cpu").recommend([[]], k=4))


def test_as_few_lists_are_chosen_as_reach_the_recall_and_it_is_measured_on_others(small: Trained) -> None:
    model = load(small.file, "cpu")
    index = model.build_index(recall=0.8, k=5)
    sample = model.read(None).drawn(2000)
    halves = [sample.take(np.arange(half, len(sample), 2)) for half in (0, 1)]
    model.index = None
    exact = [lists_of(model.recommend(half, k=5)) for half in halves]
    model.index = index

    def recall(half: int, probes: int) -> float:
        index.choice = index.choice._replace(probes=probes)
        found = lists_of(model.recommend(halves[half], k=5))
        shares = [len({*found[user]} & {*items}) / len(items) for user, items in exact[half].items()]
        return float(np.mean(shares))

    choice = index.choice
    assert choice.probes > 1
    assert recall(0, choice.probes) >= 0.8
    assert recall(1, choice.probes) == pytest.approx(choice.recall)
    assert str(index).startswith(
        f"{choice.probes} of 20 lists are searched, {100 * choice.searched:.1f} % of 26 items; "
    )
    assert 0 < choice.searched < 1
    assert model.build_index(recall=1.0, k=5).choice.probes > choice.probes


def test_a_saved_index_is_that_of_its_model_alone(small: Trained, tmp_path: Path) -> None:
    model = load(small.file, "cpu")
    index = model.build_index(recall=0.7, k=4)
    file = tmp_path / "m.index"
    index.save(file)
    again = load(small.file, "cpu", index=file)
    assert again.index is not None
    assert again.index.choice == index.choice
    pd.testing.assert_frame_equal(again.recommend(k=4), model.recommend(k=4))
    state = checkpoint.read(small.file)
    state["state_dict"]["encoder.output_bias"][3] += 0.5
    checkpoint.write(tmp_path / "other.pth", state)
    with pytest.raises(UserError, match="was built of another checkpoint, or with other options"):
        load(tmp_path / "other.pth", "cpu", index=file)
    with pytest.raises(UserError, match="was built of another checkpoint, or with other options"):
        load(small.file, "cpu", logit_adjustment=1.0, index=file)
    with pytest.raises(UserError, match="an exported model scores all items; an index needs the checkpoint"):
        load(tmp_path, index=file)
    with pytest.raises(UserError, match=r"no\.index cannot be read \(FileNotFoundError\); build it again"):
        load(small.file, "cpu", index="no.index")


def rewritten(file: Path, **changed: Any) -> None:
    with np.load(file) as found:
        arrays = {name: found[name] for name in found.files}
    about = json.loads(str(arrays["about"]))
    about["choice"] |= changed.pop("choice", {})
    about |= {name: changed.pop(name) for name in ("format", "digest") if name in changed}
    with open(file, "wb") as opened:
        np.savez(opened, **{**arrays, "about": np.array(json.dumps(about)), **changed})


CHANGED: list[tuple[dict[str, Any], str]] = [
    ({"choice": {"probes": 0}}, "is damaged"),
    ({"choice": {"probes": 21}}, "is damaged"),
    ({"choice": {"recall": "all"}}, "is damaged"),
    ({"choice": {"more": 1}}, "is damaged"),
    ({"list_of": np.full(26, 20)}, "is damaged"),
    ({"list_of": np.full(26, -1)}, "is damaged"),
    ({"list_of": np.zeros(25, dtype=np.int64)}, "is damaged"),
    ({"centres": np.zeros((20, 3), dtype=np.float32)}, "is damaged"),
    ({"centres": np.zeros((20, 17))}, "is damaged"),
    ({"centres": np.full((20, 17), np.nan, dtype=np.float32)}, "is damaged"),
    ({"centres": np.float32(1)}, "is damaged"),
    ({"format": "else"}, "is not an index in the format"),
    ({"digest": "else"}, "was built of another checkpoint"),
    ({"centres": np.array([print], dtype=object)}, r"cannot be read \(ValueError\)"),
]


def test_a_file_that_was_changed_is_refused(small: Trained) -> None:
    index = load(small.file, "cpu").build_index(k=4)
    for change, words in CHANGED:
        index.save("m.index")
        rewritten(Path("m.index"), **change)
        with pytest.raises(UserError, match=words):
            load(small.file, "cpu", index="m.index")


def test_a_file_that_is_no_index_or_has_a_changed_byte_is_refused(small: Trained) -> None:
    load(small.file, "cpu").build_index(k=4).save("m.index")
    whole = Path("m.index").read_bytes()
    middle = len(whole) // 2
    others = [b"", b"text", pickle.dumps(print), whole[:middle]]
    for content in [*others, whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]]:
        Path("m.index").write_bytes(content)
        with pytest.raises(UserError, match=r"index m\.index cannot be read") as error:
            load(small.file, "cpu", index="m.index")
        assert "\n" not in str(error.value)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"recall": 0}, "`recall` must be a number above 0 and at most 1, but is 0"),
    ({"k": 0}, "`k` must be a whole number at least 1"),
    ({"histories": [["i1"], []]}, "give at least two"),
    ({"histories": None}, "there are no histories in this checkpoint"),
]


def test_what_an_index_cannot_be_chosen_by_is_refused(write_inter: Any) -> None:
    model = load(trained(write_inter).file, "cpu")
    for how, words in WRONG:
        with pytest.raises(UserError, match=words):
            model.build_index(**{"histories": FRAME, **how})
    assert model.index is None


def test_the_commands_make_and_use_an_index(small: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    Path(small.file).rename("m.pth")
    FRAME.to_csv("log.csv", index=False)
    assert main(["index", "--checkpoint=m.pth", "--output=m.index", "--input=log.csv", "--recall=0.7", "--k=4"]) == 0
    assert "lists are searched" in capsys.readouterr().out
    assert (
        main(["recommend", "--checkpoint=m.pth", "--input=log.csv", "--output=a.csv", "--index=m.index", "--k=4"]) == 0
    )
    wanted = load("m.pth", "cpu", index="m.index").recommend(FRAME, k=4)
    found = pd.read_csv("a.csv")
    columns = ["user_id", "rank"]
    pd.testing.assert_frame_equal(
        *(one.sort_values(columns).reset_index(drop=True) for one in (found, wanted)), check_dtype=False, atol=1e-4
    )
    assert main(["index", "--checkpoint=m.pth", "--output=n.index"]) == 0  # on the histories in the checkpoint
    assert main(["recommend", "--checkpoint=m.pth", "--output=a.csv", "--index=log.csv"]) == 2
    assert "error: index log.csv cannot be read (BadZipFile); build it again" in capsys.readouterr().err


def test_without_faiss_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda module: module != "faiss")
    assert main(["index", "--checkpoint=m.pth", "--output=m.index"]) == 1
    assert "error: an index needs faiss; in the checkout: pip install -e '.[ann]'" in capsys.readouterr().err
