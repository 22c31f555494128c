"""What a bias for seen items does to rankings of histories longer than the window."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.small import start


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
