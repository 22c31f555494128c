"""The training batches: which windows an epoch shows, how often, in batches of which size."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.helpers.data import histories_to_rows
from tests.helpers.runs import make_config, prepare
from tests.helpers.small import SMALL, start


def test_an_epoch_shows_every_sequence_dupe_factor_times(options: dict) -> None:
    trainer, train, *_ = start(**options, dupe_factor=3, epochs=1)
    users = torch.cat([batch["user_id"] for batch in train])
    assert (users.bincount()[1:] == 3).all()
    assert len(train) == -(-3 * 30 // 4)
    trainer.fit(train, saved=False, verbose=False)
    assert trainer.step_count == len(train)


def test_worker_processes_give_the_same_batches(options: dict) -> None:
    alone, helped = (prepare(make_config(**options, worker=workers))[1] for workers in (0, 2))
    for a, b in zip(alone, helped, strict=True):
        assert torch.equal(a["item_id_list"], b["item_id_list"])


@pytest.mark.parametrize(("window", "epochs"), [("random", 60), ("sliding", 1), ("last", 1)])
def test_every_training_item_is_shown_in_its_order_and_no_other_or_the_most_recent_ones(
    window: str, epochs: int, write_inter: Any
) -> None:
    histories = {f"u{u}": [f"i{u}-{t}" for t in range(3 + u % 12)] for u in range(1, 31)}
    log = write_inter(histories_to_rows(histories))
    dataset, train, *_ = prepare(make_config(**{**SMALL, **log, "MAX_ITEM_LIST_LENGTH": 4}, window=window))
    users, items = (dataset.field2id_token[field] for field in ("user_id", "item_id"))
    # validation and test hold out the last two, and of three items the last
    trained = {user: own[:-2] if len(own) > 3 else own[:-1] for user, own in histories.items()}
    shown: dict[str, set[str]] = {}
    for _ in range(epochs):
        for batch in train:
            for user, row in zip(batch["user_id"].tolist(), batch["item_id_list"].tolist(), strict=True):
                own = [items[item] for item in row if item]
                first = trained[users[user]].index(own[0])
                assert own == trained[users[user]][first : first + 4][: len(own)]
                shown.setdefault(users[user], set()).update(own)
    assert shown == {user: set(own[-4:] if window == "last" else own) for user, own in trained.items()}


def test_without_shuffling_the_batches_of_every_epoch_are_the_same(options: dict) -> None:
    _, train, *_ = prepare(make_config(**{**options, "MAX_ITEM_LIST_LENGTH": 4}, window="last", shuffle=False))
    batches = [torch.cat([b["user_id"] for b in train]).tolist() for _ in range(2)]
    assert batches[0] == batches[1] == sorted(batches[0])
