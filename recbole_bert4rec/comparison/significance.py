"""Whether one model is better than another, by the metric of every user in every run of both.

Legend: U users, S seeds of the one model, R seeds of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

_DRAWS = 2000


@dataclass(frozen=True)
class Difference:
    """Difference between two models' means of a metric.

    Attributes:
        mean: first minus second.
        low, high: bounds of the 95 % bootstrap interval.
        p: two-sided, of the paired t-test.
    """

    mean: float
    low: float
    high: float
    p: float


def difference(ours: NDArray[np.float64], theirs: NDArray[np.float64], seed: int = 0) -> Difference:
    """Compare two models on the same users.

    *Shape:* ours (S, U), theirs (R, U)
    """
    mean = float(ours.mean() - theirs.mean())
    variance, freedom = _variance(ours, theirs)
    low, high, spread = _interval(ours, theirs, np.random.default_rng(seed))
    wider = float(special.stdtrit(freedom, 0.975) / special.ndtri(0.975) * np.sqrt(variance) / (spread or 1.0))
    p = paired_t_test(ours, theirs)
    return Difference(mean, mean + wider * (low - mean), mean + wider * (high - mean), p)


def paired_t_test(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """Return p of the two-sided paired t-test; see :func:`_variance`; *Shapes:* (S, U), (R, U)."""
    mean = float(ours.mean() - theirs.mean())
    variance, freedom = _variance(ours, theirs)
    if variance == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2 * special.stdtr(freedom, -abs(mean) / np.sqrt(variance)))


def _variance(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> tuple[float, float]:
    """Return the variance of the difference of means, and its degrees of freedom; users and seeds are both samples.

    The variance is v_users + v_seeds(ours) + v_seeds(theirs) - v_rest: that of the users' differences (each averaged
    over seeds), that of each model's means over its seeds, less the rest within user and seed, which both parts
    contain. The degrees of freedom are Satterthwaite's, but no fewer than those of the part that has the fewest, which
    only the subtraction can undercut. A model with one seed is taken to vary as the other does. If the numbers of
    seeds differ, the degrees of freedom are those of the part that has the fewest: Satterthwaite's then find a
    difference between equal models in up to 11 % of cases, these in 0 to 4 %.
    Three seeds leave few degrees of freedom: the test then finds a difference between equal models in 2 to 4 % of
    cases, not in 5 %. With one seed each it is the common paired t-test over users, which cannot know how much seeds
    differ.
    """
    users = ours.mean(0) - theirs.mean(0)
    parts = [(users.var(ddof=1) / len(users), len(users) - 1)]
    rest = 0.0
    repeated = [runs for runs in (ours, theirs) if len(runs) > 1]
    for runs, size in zip((ours, theirs), map(len, (ours, theirs)), strict=True):
        if not repeated:
            continue
        known = runs if size > 1 else repeated[0]
        seeds = known.mean(1)
        noise = known - known.mean(0) - seeds[:, None] + known.mean()
        rest += (noise**2).sum() / ((known.shape[0] - 1) * (known.shape[1] - 1)) / (size * known.shape[1])
        parts.append((seeds.var(ddof=1) / size, len(seeds) - 1))
    variance = sum(value for value, _ in parts) - rest
    if variance <= 0.0:  # an estimate for very few users may be
        variance = max(value for value, _ in parts)
    if variance == 0.0:
        return 0.0, 1.0
    fewest = float(min(df for _, df in parts))
    if len(ours) != len(theirs):
        return float(variance), fewest
    freedom = variance**2 / sum(value**2 / df for value, df in parts if value > 0)
    return float(variance), max(float(freedom), fewest)


def _interval(
    ours: NDArray[np.float64], theirs: NDArray[np.float64], random: np.random.Generator
) -> tuple[float, float, float]:
    """Return the 95 % percentile interval, and the spread of resampled users and, within each model, seeds.

    :func:`difference` widens it to the test's t distribution, so that both agree, and keeps its form.

    Of S seeds S - 1 are drawn, so that the spread of a mean over few of them is not too small (Rao and Wu 1988).
    """
    n_users = ours.shape[1]
    means = np.empty(_DRAWS)
    for number in range(_DRAWS):
        weights = np.bincount(random.integers(n_users, size=n_users), minlength=n_users) / n_users
        drawn = [runs[random.integers(len(runs), size=max(1, len(runs) - 1))].mean(0) for runs in (ours, theirs)]
        means[number] = weights @ (drawn[0] - drawn[1])
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high), float(means.std())


def holm(p_values: list[float]) -> list[float]:
    """Return the p-values of several tests corrected by Holm (1979), in the order given."""
    order = np.argsort(p_values)
    scaled = np.array(p_values)[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return [float(p) for p in corrected]
