"""Training with a known answer: a cyclic catalogue is learnt, a shuffled one stays at chance."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from recbole_bert4rec.core.sampling import SharedNegatives
from tests.helpers.runs import make_config, make_trainer, prepare

N_ITEMS, LENGTH = 30, 12
OPTIONS = {
    "hidden_size": 32,
    "inner_size": 64,
    "n_layers": 1,
    "hidden_dropout_prob": 0.0,
    "attn_dropout_prob": 0.0,
    "MAX_ITEM_LIST_LENGTH": 12,
    "batch_sequences": 16,
    "learning_rate": 0.01,
    "warmup_steps": 20,
    "ft_ratio": 0.2,
    "weight_decay": 0.0,
    "epochs": 40,
    "metrics": ["Hit", "NDCG"],
    "topk": [1, 10],
    "valid_metric": "Hit@1",
}
pytestmark = pytest.mark.integration


SHARED = ("metrics", "topk", "valid_metric", "MAX_ITEM_LIST_LENGTH")


def hit(rows: list[tuple[str, str, int]], write_inter: Any, model: str = "BERT4Rec", **more: Any) -> float:
    """The share of users whose item is the first, or in the list of ``topk``."""
    options = OPTIONS if model == "BERT4Rec" else {name: OPTIONS[name] for name in SHARED}
    config = make_config(model, **{**options, **write_inter(rows), **more})
    _, train, valid, test = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, verbose=False)
    return float(trainer.evaluate(test)[config["valid_metric"].lower()])


def cyclic_rows() -> list[tuple[str, str, int]]:
    draw = random.Random(0)
    rows = []
    for user in range(250):
        first = draw.randrange(N_ITEMS)
        rows += [(f"u{user}", f"i{(first + time) % N_ITEMS}", time) for time in range(4 + draw.randrange(LENGTH))]
    return rows


VARIANTS: list[dict[str, Any]] = [
    {"position": "start"},
    {
        "loss_type": "BPR",
        "exclude_seen": True,
        "epochs": 80,
        "learning_rate": 0.005,
    },  # its negatives never are items of the sequence
    {"mask_count": "exact", "loss_mean": "sequence", "mask_random_share": 0.1, "mask_keep_share": 0.1},
    {"window": "last", "lr_schedule": "linear"},
    {"seen_bias": True},
    {"loss_type": "sampled_softmax", "n_negatives": 64},
    {"loss_type": "sampled_softmax", "n_negatives": 64, "sparse_update": True},
    {"enable_amp": True},
]


@pytest.mark.parametrize(
    "variant", [{}, *(pytest.param(variant, marks=pytest.mark.slow) for variant in VARIANTS)], ids=str
)
def test_a_cyclic_catalogue_is_learnt(variant: dict[str, Any], write_inter: Any) -> None:
    assert hit(cyclic_rows(), write_inter, **variant) > 0.95


@pytest.mark.parametrize("loss_type", ["BPR-max", pytest.param("CE", marks=pytest.mark.slow)])
def test_gru4rec_plus_learns_a_cyclic_catalogue(loss_type: str, write_inter: Any) -> None:
    options = {"loss_type": loss_type, "n_sample": 32, "train_batch_size": 128, "learning_rate": 0.01, "epochs": 12}
    assert hit(cyclic_rows(), write_inter, "GRU4RecPlus", **options) > 0.95


def test_shuffled_data_stay_at_chance(write_inter: Any) -> None:
    draw = random.Random(1)
    rows = [(user, f"i{draw.randrange(N_ITEMS)}", time) for user, _, time in cyclic_rows()]
    assert hit(rows, write_inter) < 3 / N_ITEMS


POPULARITY = [1 / rank for rank in range(1, 201)]
POPULAR: dict[str, Any] = {"epochs": 15, "topk": [10], "valid_metric": "Hit@10", "loss_type": "sampled_softmax"}
POPULAR |= {"batch_sequences": 32, "learning_rate": 0.005}
BEST = sum(POPULARITY[:10]) / sum(POPULARITY)
"""What whoever knows it hits at 10."""


def popular_rows() -> list[tuple[str, str, int]]:
    """Items drawn by popularity alone: whoever knows it ranks as well as can be."""
    draw = random.Random(2)
    items = draw.choices(range(200), POPULARITY, k=6400)
    return [(f"u{n // 8}", f"i{item}", n % 8) for n, item in enumerate(items)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss_type", "negatives"),
    [("sampled_softmax", "uniform"), ("sampled_softmax", "popularity"), ("BCE", "uniform"), ("gBCE", "uniform")],
)
def test_sampled_losses_do_not_collapse_where_popularity_is_all_there_is(
    loss_type: str, negatives: str, write_inter: Any
) -> None:
    assert hit(popular_rows(), write_inter, **{**POPULAR, "loss_type": loss_type}, negatives=negatives) > 0.85 * BEST


@pytest.mark.slow
def test_without_the_correction_it_does(write_inter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = SharedNegatives.draw

    def uncorrected(self: SharedNegatives, *arguments: Any) -> Any:
        drawn = draw(self, *arguments)
        return drawn._replace(log_expected=torch.zeros_like(drawn.log_expected))

    monkeypatch.setattr(SharedNegatives, "draw", uncorrected)
    assert hit(popular_rows(), write_inter, **POPULAR, negatives="popularity") < 0.5 * BEST
