"""The split at one moment: a naive loop over users gives the same rows for every kind of model, and nothing leaks."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec.experiments.compare import contestants_of
from recbole_bert4rec.experiments.equal_rows import check_equal_rows
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.plugin.split import moments
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training import build
from recbole_bert4rec.training.inputs import user_layers
from recbole_bert4rec.training.ranks import SeenRule
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


def naive_targets(rows: list[tuple[str, str, int]], moment: float) -> list[Row]:
    """Whoever comes back after a moment, with what is predicted and the history."""
    targets: list[Row] = []
    for user in dict.fromkeys(user for user, *_ in rows):
        own = sorted((time, item) for name, item, time in rows if name == user)
        late = [place for place, (time, _) in enumerate(own) if time > moment and place > 0]
        targets += [(user, own[place][1], tuple(item for _, item in own[:place])) for place in late[-1:]]
    return targets


def with_two(rows: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """The interactions of users who have two or more."""
    counts = Counter(user for user, *_ in rows)
    return [row for row in rows if counts[row[0]] > 1]


def naive(rows: list[tuple[str, str, int]], validation: str) -> tuple[set[tuple[str, int]], list[Row], list[Row]]:
    """User and time of what is trained, and the rows of validation and test, after Time to Split."""
    moment = np.quantile([time for *_, time in rows], 0.8, method="lower")
    all_early = [row for row in rows if row[2] <= moment]
    early = with_two(all_early)
    if validation == "GT":
        earlier = np.quantile([time for *_, time in early], 0.8, method="lower")
        kept, targets = [row for row in early if row[2] <= earlier], naive_targets(all_early, earlier)
    else:
        last = {user: time for user, _, time in early}
        kept, targets = [row for row in early if row[2] != last[row[0]]], naive_targets(early, -1)
    return {(user, time) for user, _, time in with_two(kept)}, targets, naive_targets(rows, moment)


def found(loader: Any, sequential: bool) -> list[Row]:
    dataset = loader._dataset
    rows = dataset[torch.arange(len(dataset.inter_feat))] if sequential else dataset.inter_feat
    users, items = (dataset.field2id_token[field].astype(str) for field in ("user_id", "item_id"))
    names = ("user_id", "item_id", "item_id_list", "item_length")
    columns = [rows[name].tolist() if name in rows.interaction else [0] * len(rows) for name in names]
    return sorted(
        (users[user], items[item], tuple(items[one] for one in history[:length]) if sequential else ())
        for user, item, history, length in zip(*columns, strict=True)
    )


@pytest.mark.parametrize(("model", "validation"), list(itertools.product(MODELS, ["GT", "LTI"])))
def test_all_parts_are_those_of_a_naive_loop_and_nothing_later_is_read(
    model: str, validation: str, write_inter: Any
) -> None:
    split = {"GT": {"quantile": 0.8, "validation": validation}}
    options = {**write_inter(log()), **SMALL, **MODELS[model], "eval_args": {"split": split, "order": "TO"}}
    data = build.load_data(make_config(model, **options))
    trained, *targets = naive(log(), validation)
    sequential = model != "BPR"
    for loader, wanted in zip((data.valid, data.test), targets, strict=True):
        assert found(loader, sequential) == sorted(row if sequential else (*row[:2], ()) for row in wanted)
    dataset = data.train._dataset
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
    if isinstance(data.train, WindowDataLoader):  # sequences are in the order of time
        ends = data.train.begin + data.train.length - dataset.sequences.offsets[data.train.users]
        assert all(end <= lengths[str(users[n])] for n, end in zip(data.train.users, ends, strict=True))


def test_the_moment_of_validation_is_of_users_who_are_trained() -> None:
    users = np.array([0] * 10 + [1] * 10 + list(range(2, 22)) + [0] * 5)
    times = np.array([*range(1, 11), *range(1, 11), *[11] * 20, *range(20, 25)], dtype=np.float32)
    assert moments(users, times, 0.88) == (9.0, 11.0)


@pytest.mark.parametrize("model", ["BERT4Rec", "BPR"])
def test_an_empty_part_is_refused(model: str, write_inter: Any) -> None:
    nobody_comes_back = [(f"u{u}", f"i{t}", t) for u in range(9) for t in range(4)] + [("v", "i1", 9), ("w", "i2", 9)]
    rule = {"split": {"GT": {"quantile": 0.9, "validation": "LTI"}}, "order": "TO"}
    with pytest.raises(UserError, match=r"GT.*'test': 0"):
        prepare(make_config(model, **write_inter(nobody_comes_back), **SMALL, eval_args=rule))


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ({"quantile": 1}, "quantile"),
        ({"target": "first"}, "target"),
        ({"validation": "LOO"}, "validation"),
        ({"quantil": 0.9}, "'quantil'"),
        (0.9, "GT"),
    ],
)
def test_mistakes_of_the_rule_are_refused_at_once(rule: Any, named: str, write_inter: Any) -> None:
    options = {**write_inter(log()), **SMALL, "eval_args": {"split": {"GT": rule}, "order": "TO"}}
    with pytest.raises(UserError, match=named):  # at once
        make_config(**options)
    with pytest.raises(UserError, match=named):
        prepare(make_config("BPR", **options))


@pytest.mark.parametrize("model", ["SASRec", "BPR"])
def test_the_rule_about_seen_items_knows_no_later_ones(model: str, write_inter: Any) -> None:
    """What it takes out of a ranking is what our model takes out: the history, whole, and nothing else."""
    split = {"GT": {"quantile": 0.8}}
    options = {**write_inter(log()), **SMALL, "eval_args": {"split": split, "order": "TO"}, "exclude_seen": True}
    _, _, *ours = prepare(make_config(**options))
    data = build.load_data(make_config(model, **{**options, **MODELS[model]}))
    rule = SeenRule(True, data.table, data.valid, data.test)
    assert rule._seen is not None
    for loader, own, seen in zip((data.valid, data.test), ours, rule._seen, strict=True):
        rows = own._dataset.inter_feat
        row, items = own._dataset.sequences.seen(rows["user_id"], rows["target_position"])
        expected = set(zip(rows["user_id"][row].tolist(), items.tolist(), strict=True))
        users = loader._dataset.inter_feat["user_id"].numpy()
        place, found_items = seen[users].nonzero()
        assert set(zip(users[place].tolist(), found_items.tolist(), strict=True)) == expected
        assert expected


def test_models_are_compared_on_equal_rows(write_inter: Any) -> None:
    data = write_inter(log())
    rules = "eval_args: {split: {GT: {quantile: 0.8, validation: LTI}}, order: TO, group_by: user, mode: full}"
    Path("protocol.yaml").write_text(f"{rules}\ntopk: [3]\nmetrics: [MRR]\nvalid_metric: MRR@3\nexclude_seen: True\n")
    options = {"data_path": data["data_path"], "epochs": "1"}
    contestants = contestants_of(["BERT4Rec", "SASRec", "BPR"], {}, user_layers(options, ["protocol.yaml"], {}))
    about = check_equal_rows(contestants["BERT4Rec"], contestants, "toy")
    assert len(about["rows"]) == len(naive(log(), "LTI")[2])
