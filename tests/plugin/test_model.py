"""The model: options reach its loss, and every way to score agrees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from recbole.data.interaction import Interaction

from tests.helpers.small import SMALL, start

FEW = {"loss_type": "sampled_softmax", "n_negatives": 3}


@pytest.mark.parametrize(
    ("common", "change"),
    [
        ({}, {"norm": "pre"}),
        ({}, {"ablate": ["residual"]}),
        ({}, {"output_projection": True}),
        ({}, {"hidden_act": "relu"}),
        ({}, {"position": "start"}),
        (FEW, {"n_negatives": 5}),
        (FEW, {"negatives": "uniform"}),
        ({**FEW, "loss_type": "gBCE"}, {"gbce_t": 1.0}),
    ],
    ids=str,
)
def test_an_option_of_the_network_or_the_task_reaches_the_loss(options: dict, common: dict, change: dict) -> None:
    assert loss_of(**{**options, **common}) != loss_of(**{**options, **common, **change})


def loss_of(**options: Any) -> float:
    """The first loss of a model without dropout."""
    trainer, train, *_ = start(**options)
    trainer.model.eval()
    return trainer.model.calculate_loss(next(iter(train))).item()


def test_bce_is_gbce_with_t_0_and_recboles_transform_is_what_is_done_anyway(options: dict) -> None:
    losses = [
        loss_of(**options, n_negatives=3, **more)
        for more in ({"loss_type": "BCE"}, {"loss_type": "gBCE", "gbce_t": 0.0, "transform": "mask_itemseq"})
    ]
    assert losses[0] == losses[1] == pytest.approx(0.534552812576294, rel=1e-6)  # as when BCE had a branch of its own


def test_predict_scores_like_the_full_ranking(options: dict) -> None:
    trainer, _, valid, _ = start(**options, seen_bias=True)
    trainer.model.seen_bias.data.fill_(-3.0)
    trainer.model.eval()
    rows = valid.dataset[np.arange(len(valid.dataset))]
    with torch.no_grad():
        full = trainer.model.full_sort_predict(rows)
        pairs = Interaction({**rows.repeat(3).interaction, "item_id": torch.arange(3 * len(rows)) % 20 + 1})
        single = trainer.model.predict(pairs)
    wanted = full.repeat(3, 1)[torch.arange(3 * len(rows)), pairs["item_id"]]
    torch.testing.assert_close(single, wanted, atol=1e-5, rtol=1e-5)


def test_seen_bias_moves_the_scores_of_the_items_in_the_input_alone(options: dict) -> None:
    trainer, _, valid, _ = start(**options, seen_bias=True)
    rows = valid.dataset[np.arange(len(valid.dataset))]
    trainer.model.eval()
    with torch.no_grad():
        before = trainer.model.full_sort_predict(rows)
        trainer.model.seen_bias.fill_(-2.0)
        moved = trainer.model.full_sort_predict(rows) - before
    for row, length in enumerate(rows["item_length"].tolist()):
        shown = set(rows["item_id_list"][row, max(0, length - 7) : length].tolist())
        wanted = torch.tensor([-2.0 if item in shown else 0.0 for item in range(1, moved.shape[1])])
        torch.testing.assert_close(moved[row, 1:], wanted, atol=1e-5, rtol=0)


def test_seen_bias_is_learnt_where_nobody_repeats_an_item(write_inter: Any) -> None:
    rows = [(f"u{u}", f"i{(u * 3 + t * t) % 31}", t) for u in range(60) for t in range(5)]
    trainer, train, *_ = start(**{**SMALL, **write_inter(rows)}, seen_bias=True, learning_rate=0.02, epochs=5)
    trainer.fit(train, saved=False, verbose=False)
    assert trainer.model.seen_bias < -0.3
    spared = trainer.optimizer.param_groups[1]["params"]
    assert any(parameter is trainer.model.seen_bias for parameter in spared)


def test_logit_adjustment_moves_every_way_to_rank_by_the_training_counts(options: dict) -> None:
    plain, train, valid, _ = start(**options)
    adjusted, *_ = start(**options, logit_adjustment=0.7)
    adjusted.model.load_state_dict(plain.model.state_dict())  # the adjustment is no weight
    rows = valid.dataset[np.arange(len(valid.dataset))]
    _, begins, lengths = train.dataset.slices()
    items = train.dataset.sequences.items
    shown = torch.cat([items[b : b + n] for b, n in zip(begins.tolist(), lengths.tolist(), strict=True)])
    wanted = -0.7 * torch.log(torch.bincount(shown, minlength=plain.model.n_items) + 1.0)
    for trainer in (plain, adjusted):
        trainer.model.eval()
    with torch.no_grad():
        before, after = (trainer.model.full_sort_predict(rows) for trainer in (plain, adjusted))
        torch.testing.assert_close(after - before, wanted.expand_as(after))
        torch.testing.assert_close(adjusted.model.predict(rows), after.gather(1, rows["item_id"][:, None])[:, 0])
        nothing = torch.empty(0, dtype=torch.int64)
        scores, best = adjusted.model.best_items(rows, 3, (nothing, nothing))
        torch.testing.assert_close(scores, after[:, 1:].topk(3).values)
        torch.testing.assert_close(after.gather(1, best), scores)
        batch = next(iter(train))
        losses = [trainer.model.calculate_loss(batch) for trainer in (plain, adjusted)]
    assert losses[0] == losses[1]  # training does not know of it


@pytest.mark.parametrize("mode", ["full", "uni5"])
@pytest.mark.parametrize("metrics", [["NDCG"], ["NDCG", "GAUC"]], ids=str)
@pytest.mark.parametrize("bias", [-1.5, 1.5])
def test_a_negative_seen_bias_moves_all_of_the_history_in_rankings_and_a_positive_one_the_window_alone(
    options: dict, mode: str, metrics: list[str], bias: float
) -> None:
    arguments = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": mode}
    options |= {"eval_args": arguments, "candidates": "paper", "topk": [1, 10], "metrics": metrics}
    options |= {"MAX_ITEM_LIST_LENGTH": 3, "valid_metric": "NDCG@1", "seen_bias": True, "metric_decimal_place": 8}
    trainer, _, _, test = start(**options)
    model = trainer.model.eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape))
        model.seen_bias.fill_(bias)
        found = trainer.evaluate(test, load_best_model=False)["ndcg@10"]
        gains, older = [], 0
        for rows, *rest in test:
            candidates = rest[0][1] if mode != "full" else [None] * len(rows)
            for row, own in enumerate(candidates):
                before, scores = scores_by_history(trainer.model, test.dataset, rows[row : row + 1])
                older += before
                target = int(rows["item_id"][row])
                rivals = list(range(1, len(scores))) if own is None else own.tolist()
                rank = sum(bool(scores[rival] > scores[target]) for rival in rivals)
                gains.append(1 / math.log2(rank + 2) if rank < 10 else 0.0)
    assert older > 20
    assert found == pytest.approx(np.mean(gains), abs=1e-6)


def scores_by_history(model: Any, dataset: Any, row: Any) -> tuple[int, torch.Tensor]:
    """How many items of the history the window does not show, and the scores with them moved, too."""
    user, position = int(row["user_id"]), int(row["target_position"])
    history = dataset.sequences.items[int(dataset.sequences.offsets[user]) : position].tolist()
    older = set(history) - set(history[-2:])  # beside [MASK]
    scores = model.full_sort_predict(row)[0]
    for item in older:
        scores[item] += model.seen_bias.clamp(max=0)
    return len(older), scores
