"""Training with a known answer: a cyclic catalogue is learnt, a shuffled one stays at chance."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.conftest import make_config, make_trainer, prepare

N_ITEMS, LENGTH = 30, 12
OPTIONS = {
    "hidden_size": 32,
    "inner_size": 64,
    "n_layers": 1,
    "hidden_dropout_prob": 0.0,
    "attn_dropout_prob": 0.0,
    "MAX_ITEM_LIST_LENGTH": 12,
    "train_batch_size": 32,
    "learning_rate": 0.005,
    "warmup_steps": 20,
    "ft_ratio": 0.2,
    "weight_decay": 0.0,
    "epochs": 60,
    "metrics": ["Hit", "NDCG"],
    "topk": [1, 10],
    "valid_metric": "Hit@1",
}


def hit_at_1(rows: list[tuple[str, str, int]], write_inter: Any, **more: Any) -> float:
    config = make_config(**{**OPTIONS, **write_inter(rows), **more})
    _, train, valid, test = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, verbose=False)
    return float(trainer.evaluate(test)["hit@1"])


def cyclic_rows() -> list[tuple[str, str, int]]:
    draw = random.Random(0)
    rows = []
    for user in range(400):
        first = draw.randrange(N_ITEMS)
        rows += [(f"u{user}", f"i{(first + time) % N_ITEMS}", time) for time in range(4 + draw.randrange(LENGTH))]
    return rows


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"position": "start"},
        {"loss_type": "BPR", "exclude_seen": True, "epochs": 80},  # its negatives never are items of the sequence
        {
            "mask_count": "exact",
            "loss_mean": "sequence",
            "mask_random_share": 0.1,
            "mask_keep_share": 0.1,
            "epochs": 60,
        },
        {"window": "last", "lr_schedule": "linear"},
        {"seen_bias": True},
    ],
    ids=str,
)
def test_a_cyclic_catalogue_is_learnt(variant: dict[str, Any], write_inter: Any) -> None:
    assert hit_at_1(cyclic_rows(), write_inter, **variant) > 0.95


def test_shuffled_data_stay_at_chance(write_inter: Any) -> None:
    draw = random.Random(1)
    rows = [(user, f"i{draw.randrange(N_ITEMS)}", time) for user, _, time in cyclic_rows()]
    assert hit_at_1(rows, write_inter) < 3 / N_ITEMS
