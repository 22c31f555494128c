"""The split at one moment: a naive loop over users gives the same rows for every kind of model, and nothing leaks."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec.comparison.comparison import Comparison
from recbole_bert4rec.comparison.rows import check_equal_rows
from recbole_bert4rec.core.global_time import TARGETS, VALIDATIONS, GlobalTime, moments
from recbole_bert4rec.plugin.global_split import trained_until
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training import build
from recbole_bert4rec.training.seen import SeenRule
from tests.helpers.runs import MRR_OF_3, make_config, prepare

SMALL = {**MRR_OF_3, "MAX_ITEM_LIST_LENGTH": 100}
MODELS = {
    "BERT4Rec": {},
    "SASRec": {"loss_type": "CE"},
    "GRU4Rec": {"loss_type": "CE", "training_rows": "user"},
    "BPR": {},
}
Row = tuple[str, str, tuple[str, ...]]


def log() -> list[tuple[str, str, int]]:
    """Users who begin and end at all times; some have one interaction, or none before the moment."""
    draw = np.random.default_rng(4)
    rows = []
    for user in range(40):
        begin, count = int(draw.integers(0, 900)), int(draw.integers(1, 12))
        times = sorted(set(draw.integers(begin, begin + 200, count).tolist()))
        rows += [(f"u{user}", f"i{draw.integers(25)}", time) for time in times]
    return rows


def naive(rows: list[tuple[str, str, int]], target: str) -> tuple[float, list[Row]]:
    """Moment and test rows, for targets that need no draw."""
    moment = np.quantile([time for *_, time in rows], 0.8, method="lower")
    return moment, naive_targets(rows, moment, target)


def naive_targets(rows: list[tuple[str, str, int]], moment: float, target: str) -> list[Row]:
    """Whoever comes back after a moment, with what is predicted, or may be, and the history."""
    test: list[Row] = []
    for user in dict.fromkeys(user for user, *_ in rows):
        own = sorted((time, item) for name, item, time in rows if name == user)
        late = [place for place, (time, _) in enumerate(own) if time > moment and place > 0]
        if not late:
            continue
        chosen = {"last": late[-1:], "first": late[:1]}.get(target, late)
        test += [(user, own[place][1], tuple(item for _, item in own[:place])) for place in chosen]
    return test


def with_two(rows: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """The interactions of users who have two or more."""
    counts = Counter(user for user, *_ in rows)
    return [row for row in rows if counts[row[0]] > 1]


def naive_training(rows: list[tuple[str, str, int]], validation: str) -> tuple[set[tuple[str, int]], list[Row]]:
    """User and time of what is trained, and the rows of validation; after Time to Split, for ``GT`` and ``LTI``."""
    moment, _ = naive(rows, "last")
    early = with_two([row for row in rows if row[2] <= moment])
    if validation == "GT":
        earlier = np.quantile([time for *_, time in early], 0.8, method="lower")
        all_early = [row for row in rows if row[2] <= moment]
        kept = with_two([row for row in early if row[2] <= earlier])
        return {(user, time) for user, _, time in kept}, naive_targets(all_early, earlier, "last")
    last = {user: max(time for name, _, time in early if name == user) for user, *_ in early}
    kept = with_two([row for row in early if row[2] != last[row[0]]])
    return {(user, time) for user, _, time in kept}, naive_targets(early, -1, "last")


def found(loader: Any, sequential: bool) -> list[Row]:
    dataset = loader._dataset
    rows = dataset[torch.arange(len(dataset.inter_feat))] if sequential else dataset.inter_feat
    users, items = (dataset.field2id_token[field] for field in ("user_id", "item_id"))
    histories = rows["item_id_list"] if sequential else [None] * len(rows)
    lengths = rows["item_length"] if sequential else [0] * len(rows)
    return sorted(
        (
            str(users[int(user)]),
            str(items[int(item)]),
            tuple(str(items[int(i)]) for i in history[: int(length)]) if sequential else (),
        )
        for user, item, history, length in zip(rows["user_id"], rows["item_id"], histories, lengths, strict=True)
    )


@pytest.mark.parametrize(("model", "target"), list(itertools.product(MODELS, TARGETS)))
def test_the_rows_of_the_test_are_those_of_a_naive_loop(model: str, target: str, write_inter: Any) -> None:
    split = {"GT": {"quantile": 0.8, "target": target, "validation": "LTI"}}
    config = make_config(
        model, **{**write_inter(log()), **SMALL, **MODELS[model]}, eval_args={"split": split, "order": "TO"}
    )
    _, _, _, test = prepare(config)
    sequential = model != "BPR"
    rows = found(test, sequential)
    if target == "random":
        _, every = naive(log(), "any")
        assert set(rows) <= set(every if sequential else [(user, item, ()) for user, item, _ in every])
        assert len({user for user, *_ in rows}) == len(rows) == len({user for user, *_ in every})
        return
    _, expected = naive(log(), target)
    assert rows == sorted(expected if sequential else [(user, item, ()) for user, item, _ in expected])


@pytest.mark.parametrize(("model", "validation"), list(itertools.product(MODELS, VALIDATIONS)))
def test_nothing_is_trained_after_the_moment_nor_what_is_validated(
    model: str, validation: str, write_inter: Any
) -> None:
    split = {"GT": {"quantile": 0.8, "validation": validation}}
    config = make_config(
        model, **{**write_inter(log()), **SMALL, **MODELS[model]}, eval_args={"split": split, "order": "TO"}
    )
    _, train, valid, test = prepare(config)
    moment, _ = naive(log(), "last")
    rows = train._dataset.inter_feat
    assert float(rows["timestamp"].max()) <= moment
    validated = valid._dataset.inter_feat
    assert float(validated["timestamp"].max()) <= moment
    assert float(test._dataset.inter_feat["timestamp"].min()) > moment
    keys = [set(zip(one["user_id"].tolist(), one["timestamp"].tolist(), strict=True)) for one in (rows, validated)]
    assert not keys[0] & keys[1]
    if validation == "GT":
        assert float(validated["timestamp"].min()) > float(rows["timestamp"].max())


@pytest.mark.parametrize(("model", "validation"), list(itertools.product(MODELS, ["GT", "LTI"])))
def test_training_and_validation_are_those_of_a_naive_loop(model: str, validation: str, write_inter: Any) -> None:
    split = {"GT": {"quantile": 0.8, "validation": validation}}
    options = {**write_inter(log()), **SMALL, **MODELS[model], "eval_args": {"split": split, "order": "TO"}}
    _, train, valid, _ = prepare(make_config(model, **options))
    trained, validated = naive_training(log(), validation)
    sequential = model != "BPR"
    assert found(valid, sequential) == sorted(row if sequential else (*row[:2], ()) for row in validated)
    dataset = train._dataset
    users, rows = dataset.field2id_token["user_id"], dataset.inter_feat
    own = {(str(users[u]), int(t)) for u, t in zip(rows["user_id"].tolist(), rows["timestamp"].tolist(), strict=True)}
    first = {user: min(time for name, time in trained if name == user) for user, _ in trained}
    assert own == (trained - set(first.items()) if sequential else trained)
    if hasattr(dataset, "slices"):
        counts = Counter(item for user, item, time in log() if (user, time) in trained)
        names = dataset.field2id_token["item_id"]
        assert {str(names[i]): n for i, n in enumerate(dataset.training_counts().tolist()) if n} == counts
        owner, _, length = dataset.slices()
        lengths = {str(users[u]): int(n) for u, n in zip(owner, length, strict=True)}
        assert lengths == Counter(user for user, _ in trained)


@pytest.mark.parametrize("model", MODELS)
def test_training_reads_nothing_after_the_moment(model: str, write_inter: Any) -> None:
    options = {**write_inter(log()), **SMALL, **MODELS[model], "eval_args": {"split": {"GT": {"quantile": 0.8}}}}
    data = build.load_data(make_config(model, **options))
    loader, train = data.train, data.train._dataset
    until = trained_until(train)
    if isinstance(loader, WindowDataLoader):  # sequences are in the order of time
        read = loader.begin + loader.length - train.sequences.offsets[loader.users]
        users, times = data.interactions.users, data.interactions.times
        allowed = np.bincount(users[times <= until], minlength=train.user_num)
        assert (read.numpy() <= allowed[loader.users]).all()
    else:
        assert (train.inter_feat[train.time_field] <= until).all()


def test_the_moment_of_validation_is_of_users_who_are_trained() -> None:
    users = np.array([0] * 10 + [1] * 10 + list(range(2, 22)) + [0] * 5)
    times = np.array([*range(1, 11), *range(1, 11), *[11] * 20, *range(20, 25)], dtype=np.float32)
    assert moments(users, times, GlobalTime(quantile=0.88)) == (9.0, 11.0)


@pytest.mark.parametrize("model", ["BERT4Rec", "BPR"])
def test_an_empty_part_is_refused(model: str, write_inter: Any) -> None:
    nobody_comes_back = [(f"u{u}", f"i{t}", t) for u in range(9) for t in range(4)] + [("v", "i1", 9), ("w", "i2", 9)]
    split = {"GT": {"quantile": 0.9, "validation": "LTI"}}
    config = make_config(model, **write_inter(nobody_comes_back), **SMALL, eval_args={"split": split, "order": "TO"})
    with pytest.raises(UserError, match=r"leaves a part of .* empty: .*'test': 0"):
        prepare(config)


def test_every_model_has_the_same_validation_and_training(write_inter: Any) -> None:
    for validation in VALIDATIONS:
        split = {"GT": {"quantile": 0.8, "validation": validation, "target": "first"}}
        seen = []
        for model, more in MODELS.items():
            config = make_config(
                model, **{**write_inter(log()), **SMALL, **more}, eval_args={"split": split, "order": "TO"}
            )
            _, train, valid, _ = prepare(config)
            tokens = found(valid, model != "BPR")
            rows = train._dataset.inter_feat
            trained = set(zip(rows["user_id"].tolist(), rows["timestamp"].tolist(), strict=True))
            if model == "BPR":  # a user's first interaction is a row there
                first = {user: min(t for u, t in trained if u == user) for user, _ in trained}
                trained -= set(first.items())
            seen.append(([row[:2] for row in tokens], trained))
        assert all(one == seen[0] for one in seen[1:])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"quantile": 1}, "quantile must be a number above 0 and below 1, but is 1"),
        ({"target": "next"}, "target must be one of"),
        ({"validation": "LOO"}, "validation must be one of"),
        ({"quantil": 0.9}, "has no 'quantil', but"),
        (0.9, "must be a dictionary such as"),
    ],
)
def test_mistakes_of_the_rule_are_said_at_once(rule: Any, said: str, write_inter: Any) -> None:
    options = {**write_inter(log()), **SMALL, "eval_args": {"split": {"GT": rule}, "order": "TO"}}
    with pytest.raises(UserError, match=said):  # at once
        make_config(**options)
    with pytest.raises(UserError, match=said):
        prepare(make_config("BPR", **options))


@pytest.mark.parametrize("model", ["SASRec", "BPR"])
@pytest.mark.parametrize("target", ["last", "first", "random"])
def test_the_rule_about_seen_items_knows_no_later_ones(model: str, target: str, write_inter: Any) -> None:
    """What it takes out of a ranking is what our model takes out: the history, whole, and nothing else."""
    split = {"GT": {"quantile": 0.8, "target": target}}
    options = {**write_inter(log()), **SMALL, "eval_args": {"split": split, "order": "TO"}, "exclude_seen": True}
    _, _, *ours = prepare(make_config(**options))
    data = build.load_data(make_config(model, **{**options, **MODELS[model]}))
    rule = SeenRule(True, data.interactions, data.valid, data.test)
    for loader, own in zip((data.valid, data.test), ours, strict=True):
        rule.on_test_begin(None, loader)  # type: ignore[arg-type]
        rows = own._dataset.inter_feat
        row, items = own._dataset.sequences.seen(rows["user_id"], rows["target_position"])
        expected = set(zip(rows["user_id"][row].tolist(), items.tolist(), strict=True))
        users = loader._dataset.inter_feat["user_id"].numpy()
        place, found_items = rule._seen(users)
        assert set(zip(users[place].tolist(), found_items.tolist(), strict=True)) == expected
        assert expected


def test_models_are_compared_on_equal_rows(write_inter: Any) -> None:
    data = write_inter(log())
    rules = "eval_args: {split: {GT: {quantile: 0.8, validation: LTI}}, order: TO, group_by: user, mode: full}"
    Path("protocol.yaml").write_text(f"{rules}\ntopk: [3]\nmetrics: [MRR]\nvalid_metric: MRR@3\nexclude_seen: True\n")
    options = {"data_path": data["data_path"], "epochs": "1"}
    comparison = Comparison(("BERT4Rec", "SASRec", "BPR"), "toy", ("protocol.yaml",), options)
    about = check_equal_rows(comparison, lambda model: None)
    assert len(about["rows"]) == len(naive(log(), "last")[1])
