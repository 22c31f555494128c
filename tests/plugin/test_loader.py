"""The training batches: which windows an epoch shows, how often, in batches of which size."""

from __future__ import annotations

from typing import Any

import torch

from recbole_bert4rec.core.objectives import cloze
from tests.helpers.data import histories_to_rows
from tests.helpers.runs import make_config, prepare
from tests.helpers.small import SMALL, start


def test_an_epoch_shows_every_sequence_dupe_factor_times_each_masked_anew(options: dict) -> None:
    trainer, train, *_ = start(**options, dupe_factor=3, epochs=1)
    users = torch.cat([batch["user_id"] for batch in train])
    assert (users.bincount()[1:] == 3).all()
    assert len(train) == -(-3 * 30 // 4)
    seen: dict[int, set[tuple[int, ...]]] = {}
    generator = torch.Generator().manual_seed(0)
    for batch in train:
        masked = cloze(batch["item_id_list"], batch["item_length"], 99, generator, 0.5)
        for user, row in zip(batch["user_id"].tolist(), (masked.item_seq == 99).tolist(), strict=True):
            seen.setdefault(user, set()).add(tuple(row))
    assert sum(len(masks) > 1 for masks in seen.values()) > 20
    trainer.fit(train, saved=False, verbose=False)
    assert trainer.step_count == len(train)


def test_worker_processes_give_the_same_batches(options: dict) -> None:
    alone, helped = (prepare(make_config(**options, worker=workers))[1] for workers in (0, 2))
    for a, b in zip(alone, helped, strict=True):
        assert torch.equal(a["item_id_list"], b["item_id_list"])


def test_over_the_epochs_every_training_item_is_shown_and_no_other(write_inter: Any) -> None:
    histories = {f"u{u}": [f"i{u}-{t}" for t in range(3 + u % 12)] for u in range(1, 31)}
    log = write_inter(histories_to_rows(histories))
    dataset, train, *_ = prepare(make_config(**{**SMALL, **log, "MAX_ITEM_LIST_LENGTH": 4}))
    users, items = (dataset.field2id_token[field] for field in ("user_id", "item_id"))
    shown: dict[str, set[str]] = {}
    for _ in range(60):
        for batch in train:
            for user, row in zip(batch["user_id"].tolist(), batch["item_id_list"].tolist(), strict=True):
                shown.setdefault(users[user], set()).update(items[item] for item in row if item)
    # validation and test hold out the last two, and of three items the last
    assert shown == {user: set(own[:-2] if len(own) > 3 else own[:-1]) for user, own in histories.items()}


def test_window_last_shows_the_most_recent_training_items_each_epoch(options: dict) -> None:
    _, train, *_ = prepare(make_config(**{**options, "MAX_ITEM_LIST_LENGTH": 4}, window="last", shuffle=False))
    batches = [torch.cat([b["user_id"] for b in train]).tolist() for _ in range(2)]
    assert batches[0] == batches[1] == sorted(batches[0])
    _, begin, length = train.dataset.slices()
    first = next(iter(train))
    for row, (start_at, count) in enumerate(zip(begin.tolist(), length.tolist(), strict=True)):
        if row == len(first):
            break
        items = train.dataset.sequences.items[start_at : start_at + count].tolist()[-4:]
        assert first["item_id_list"][row].tolist()[: len(items)] == items


def test_sliding_windows_show_every_training_item_every_epoch(options: dict) -> None:
    sliding = {**options, "MAX_ITEM_LIST_LENGTH": 4, "window": "sliding"}
    _, train, *_ = prepare(make_config(**sliding))
    _, begin, length = train.dataset.slices()
    wanted = {p for b, n in zip(begin.tolist(), length.tolist(), strict=True) for p in range(b, b + n)}
    shown = set()
    for start_at, count in zip(train.begin.tolist(), train.length.tolist(), strict=True):
        assert count <= 4
        shown.update(range(start_at, start_at + count))
    assert shown == wanted
    assert sum(len(batch) for batch in train) == len(train.users) > len(begin)
