"""The tests of a comparison: right under a null, powerful for a better model, and equal to known answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from recbole_bert4rec.experiments.significance import against, difference, holm


def runs(random: np.random.Generator, users: Any, seeds: int, lift: float = 0.0, spread: float = 0.1) -> Any:
    """NDCG-like outcomes: each user's chance of a hit, moved by the model's taste and by the seed. (S, U)"""
    taste = random.normal(0.0, 0.3, len(users))
    luck = random.normal(0.0, spread, (seeds, 1)) + random.normal(0.0, 0.5, (seeds, len(users)))
    chance = 1.0 / (1.0 + np.exp(-(users + taste + lift + luck)))
    hits = random.random(chance.shape) < chance
    return hits / np.log2(2.0 + random.integers(0, 10, chance.shape))


@pytest.mark.parametrize(
    ("seeds", "spread"), [((1, 1), 0.0), ((3, 3), 0.1), ((3, 3), 0.2), ((5, 5), 0.0), ((5, 5), 0.1), ((3, 1), 0.3)]
)
def test_of_200_pairs_of_equal_models_few_are_told_apart(seeds: tuple[int, int], spread: float) -> None:
    random = np.random.default_rng(7)
    rejected = 0
    for _ in range(200):
        users = random.normal(-2.0, 1.2, 600)
        rejected += difference(*(runs(random, users, count, spread=spread) for count in seeds)).p < 0.05
    assert (0.02 if seeds[0] == seeds[1] else 0.0) <= rejected / 200 <= 0.09


def test_a_clearly_better_model_is_told_apart() -> None:
    random = np.random.default_rng(3)
    users = random.normal(-2.0, 1.2, 900)
    found = difference(runs(random, users, 3, lift=0.8), runs(random, users, 3))
    assert found.p < 0.01
    assert found.low > 0
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_with_one_seed_it_is_the_paired_t_test_over_users() -> None:
    random = np.random.default_rng(5)
    ours, theirs = random.random((1, 50)), random.random((1, 50))
    expected, found = stats.ttest_rel(ours[0], theirs[0]), difference(ours, theirs)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("seeds", [(1, 3), (3, 1), (10, 2), (5, 3)])
def test_of_equal_models_with_other_numbers_of_seeds_at_most_one_in_twenty_is_told_apart(
    seeds: tuple[int, int], spread: float
) -> None:
    random = np.random.default_rng(9)
    rejected, rounds = 0, 1000
    for _ in range(rounds):
        users = random.normal(-2.0, 1.2, 300)
        ours, theirs = (runs(random, users, count, spread=spread) for count in seeds)
        rejected += difference(ours, theirs).p < 0.05
    assert rejected / rounds <= 0.05 + 2 * 0.007  # two standard errors


def test_models_are_compared_by_the_seeds_that_both_have() -> None:
    random = np.random.default_rng(2)
    seeds = {"A": [1, 2, 3], "B": [3, 2], "C": [4, 1]}
    of_users = {model: random.random((len(own), 40)) for model, own in seeds.items()}
    results = SimpleNamespace(
        records={model: [{"seed": seed} for seed in own] for model, own in seeds.items()},
        by_user=lambda model, metric, protocol: of_users[model],
    )
    found = against(results, "A", "mrr@3")  # type: ignore[arg-type]
    a, b, c = of_users.values()
    assert found["B"][:4] == difference(a[[1, 2]], b)[:4]
    assert found["C"][:4] == difference(a, c)[:4]  # one seed is the same, which says nothing of seeds
    assert [gap.corrected for gap in found.values()] == holm([gap.p for gap in found.values()])


def test_for_very_few_users_no_difference_is_certain() -> None:
    random = np.random.default_rng(4)
    p = [difference(random.random((3, 4)), random.random((3, 4))).p for _ in range(200)]
    assert min(p) > 0.0
    assert np.mean(np.array(p) < 0.05) <= 0.09


def test_models_that_never_differ_are_equal() -> None:
    same = np.random.default_rng(1).random((2, 40))
    found = difference(same[:1], same[:1])
    assert (found.mean, found.p) == (0.0, 1.0)
    assert found.low == found.high == 0.0


def test_seeds_that_differ_widen_the_interval() -> None:
    random = np.random.default_rng(2)
    users = random.random((3, 2000)) * 0.1
    steady = difference(users, users[:, ::-1])
    shifted = users + np.array([[-0.2], [0.0], [0.2]])
    moved = difference(shifted, users[:, ::-1])
    assert moved.high - moved.low > 5 * (steady.high - steady.low)
    assert moved.p > steady.p


def test_holms_correction_gives_the_known_answer() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []
