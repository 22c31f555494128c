"""Split rows into train, valid and test under ``eval_args``: as RecBole does, or at one moment for all users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from recbole.data.dataset import Dataset, SequentialDataset
from recbole.data.interaction import Interaction
from recbole.utils import set_color

from recbole_bert4rec.core.segments import index_within_segment, runs
from recbole_bert4rec.options.global_time import GlobalTime, global_time
from recbole_bert4rec.system.errors import UserError

Index = NDArray[np.int64]


class Groups:
    """The rows of each user, in RecBole's order: users are ordered by the time of their first row.

    Attributes:
        order: row numbers, group after group. *Shape:* (R,)
        group: group of each entry of ``order``. *Shape:* (R,)
        rank: index of each entry of ``order`` within its group. *Shape:* (R,)
        size: number of rows of each group. *Shape:* (G,)
    """

    def __init__(self, users: NDArray[np.int64], times: NDArray[np.float32]) -> None:
        begin, size = runs(users)
        first = np.argsort(times[begin], kind="stable")
        self.size: Index = size[first]
        self.group: Index = np.repeat(np.arange(len(begin)), self.size)
        self.rank: Index = index_within_segment(self.group, self.size)
        self.order: Index = np.repeat(begin[first], self.size) + self.rank

    def cut(self, bounds: NDArray[np.int64]) -> list[Index]:
        """Cut each group at its own bounds, ascending; return the rows of each part, group after group.

        *Shape:* (G, C)
        """
        part = np.zeros(len(self.rank), dtype=np.int8)
        for bound in bounds.T:
            part += self.rank >= bound[self.group]
        return [self.order[part == number] for number in range(bounds.shape[1] + 1)]


def leave_one_out(groups: Groups, held_out: int) -> list[Index]:
    """Hold out the last rows of each group, one for each part after training.

    A group always keeps its first row for training. A group that is too short for all parts fills the last parts, as
    in RecBole.
    """
    legal = np.minimum(held_out, groups.size - 1)
    first_held = groups.size - legal  # (G,)
    cuts = first_held[:, None] + np.maximum(0, np.arange(held_out)[None, :] - (held_out - legal)[:, None])
    return groups.cut(cuts)


def train_on_all_but(count: int, parts: Sequence[Index], seed: int) -> list[Index]:
    """Validate on ``count`` drawn users only, and train on the validation rows of all others.

    Validation on all users would keep the item before the test item out of training (Petrov and Macdonald, RecSys
    2022).
    """
    train, valid, test = parts
    validated = np.zeros(len(valid), dtype=bool)
    validated[np.random.default_rng(seed).choice(len(valid), count, replace=False)] = True
    return [np.concatenate([train, valid[~validated]]), valid[validated], test]


def by_ratio(groups: Groups, bounds_of: Callable[[int], Sequence[int]]) -> list[Index]:
    """Cut each group at bounds that depend on its size alone, by RecBole's ``_calcu_split_ids``."""
    sizes, member = np.unique(groups.size, return_inverse=True)
    bounds = np.array([bounds_of(int(size)) for size in sizes], dtype=np.int64)
    return groups.cut(bounds[member])


def by_time(groups: Groups, times: NDArray[np.float32], ratios: Sequence[float]) -> list[Index]:
    """Split by time, as RecBole's ``TS``: rows after one moment are test, the earlier rows of a group are cut by ratio.

    *Shape:* (R,)
    """
    boundary = np.percentile(times, 100 * (1 - ratios[-1]))
    early = np.bincount(groups.group, weights=times[groups.order] <= boundary, minlength=len(groups.size))
    early = early.astype(np.int64)
    train = (early * (ratios[0] / (1 - ratios[2]))).astype(np.int64)
    return groups.cut(np.stack([train, early], axis=1))


class Moments(NamedTuple):
    """The moment after which interactions are tested, and the earlier one after which ``GT`` validates."""

    validation: float
    test: float


def moments(users: Index, times: NDArray[np.float32], rule: GlobalTime) -> Moments:
    """Return the moments of a data set, given all interactions.

    *Shape:* (T,), (T,)
    """
    test = np.quantile(times, rule.quantile, method="lower")
    early = times <= test
    trained = early & (np.bincount(users[early], minlength=int(users.max()) + 1)[users] > 1)
    left = times[trained] if trained.any() else times[early]
    return Moments(float(np.quantile(left, rule.quantile, method="lower")), float(test))


def by_global_time(
    users: Index, times: NDArray[np.float32], earlier: Index, at: Moments, rule: GlobalTime, seed: int
) -> list[Index]:
    """Return the numbers of the rows of train, valid and test; rows are ordered by user, then time.

    A user's first interaction is never a target; a user with no other before training ends is not trained.

    *Shape:* (R,), (R,), (R,) of users, times and numbers of earlier interactions
    """
    generator = np.random.default_rng(seed)
    early = times <= at.test
    test = _targets(users, ~early & (earlier > 0), rule.target, generator)
    if rule.validation == "GT":
        trained = times <= at.validation
        valid = _targets(users, early & ~trained & (earlier > 0), rule.target, generator)
    else:
        valid = _targets(users, early & (earlier > 0), "last", generator)
        trained = early.copy()
        trained[valid] = False
    active = np.unique(users[trained & (earlier > 0)])  # have two interactions or more in training
    return [np.flatnonzero(trained & np.isin(users, active)), valid, test]


def _targets(users: Index, candidates: NDArray[np.bool_], target: str, generator: np.random.Generator) -> Index:
    """Choose the row of each user that is predicted."""
    rows = np.flatnonzero(candidates)
    begin, size = runs(users[rows])
    offset = {
        "first": np.zeros_like(size),
        "last": size - 1,
        "random": (generator.random(len(size)) * size).astype(np.int64),
    }[target]
    chosen: Index = rows[begin + offset]
    return chosen


def earlier_interactions(users: Index, firsts_are_rows: bool) -> Index:
    """Count each row's earlier interactions of its user; users are ascending.

    A user's first interaction is a row for general models; for sequential ones it is only a history.

    *Shape:* (R,) -> (R,)
    """
    _, size = runs(users)
    group = np.repeat(np.arange(len(size)), size)
    within: Index = index_within_segment(group, size)
    return within if firsts_are_rows else within + 1


PARTS = ("train", "valid", "test")


def split_rows(
    users: NDArray[np.int64],
    times: NDArray[np.float32],
    arguments: dict[str, Any],
    bounds_of: Callable[[int, list[float]], Sequence[int]],
) -> list[Index]:
    """Split rows, sorted by user and time (R,), as RecBole does; the parts, their rows and order are the same."""
    mode, value = next(iter((arguments["split"] or {"none": None}).items()))
    group_by = str(arguments["group_by"]).lower()
    nothing = np.empty(0, dtype=np.int64)
    groups = Groups(users, times)
    if mode == "LS" and value == "valid_and_test":
        return leave_one_out(groups, 2)
    if mode == "LS" and value in ("valid_only", "test_only"):
        train, held_out = leave_one_out(groups, 1)
        return [train, held_out, nothing] if value == "valid_only" else [train, nothing, held_out]
    ratios = [ratio / sum(value) for ratio in value] if isinstance(value, list) else []
    if mode == "RS" and group_by == "user":
        return by_ratio(groups, lambda size: bounds_of(size, ratios))
    if mode == "RS" and group_by == "none":
        return np.split(np.argsort(times, kind="stable"), bounds_of(len(times), ratios))
    if mode == "TS":
        return by_time(groups, times, ratios)
    raise UserError(
        f"eval_args: split {arguments['split']} with group_by {arguments['group_by']!r} is not known; use "
        "{'LS': 'valid_and_test'}, {'LS': 'valid_only'}, {'LS': 'test_only'}, {'RS': [.8, .1, .1]} with group_by "
        "user or none, or {'TS': [.8, .1, .1]}"
    )


def keep_valid_users(parts: list[Index], count: int | None, seed: int) -> list[Index]:
    """Leave only some users in validation; the validation rows of all others are trained on."""
    if count is None:
        return parts
    if count > len(parts[1]):
        raise UserError(f"`valid_users` is {count}, but only {len(parts[1])} users have a validation item; use fewer")
    return train_on_all_but(count, parts, seed)


def parts_of(split: dict[str, Any]) -> tuple[bool, ...]:
    """Return whether a split asks for train, valid and test."""
    mode, value = next(iter(split.items()))
    if mode == "LS":
        return True, value != "test_only", value != "valid_only"
    return tuple(ratio > 0 for ratio in value)


def check_not_empty(sizes: Sequence[int], needed: Sequence[bool], split: object, dataset: str) -> None:
    """Refuse a split that leaves a part without rows."""
    for name, size, wanted in zip(PARTS, sizes, needed, strict=True):
        if wanted and not size:
            raise UserError(
                f"the {name} part is empty: eval_args split {split} leaves no interaction of [{dataset}] for it. "
                "Leave-one-out into valid and test needs users with 4 interactions or more; TS needs interactions that "
                "are later than most others. Use longer histories or another split"
            )


_SEED = 0
"""Seed of the draws of targets and users: the same for every run, so that all are tested on the same rows."""


def asks_for_global_time(eval_args: object) -> bool:
    """Tell whether a protocol asks for this split."""
    split = eval_args.get("split") if isinstance(eval_args, dict) else None
    return isinstance(split, dict) and "GT" in split


def splits_by_global_time(dataset: Dataset) -> bool:
    """Tell whether a data set is split at one moment."""
    if not asks_for_global_time(dataset.config["eval_args"]):
        return False
    split, files = dataset.config["eval_args"]["split"], dataset.config["benchmark_filename"]
    if len(split) > 1 or files:
        raise UserError(f"`eval_args` split GT stands alone, but there is {files or list(split)}, too")
    return True


def build_by_global_time(dataset: Any) -> list[Any]:
    """Split a data set, as its ``build`` does under RecBole's own protocols.

    Each part keeps the ``moments`` of the split and, as ``histories``, the number of interactions that its user had
    before each row's target, which RecBole's rows of general models lack.
    """
    if dataset.time_field not in dataset.inter_feat:
        raise UserError(f"eval_args: split GT needs the time column {dataset.time_field!r}; name it in load_col")
    rule = global_time(dataset.config["eval_args"]["split"]["GT"])
    sequential = isinstance(dataset, SequentialDataset)
    split_moments = _moments_of(dataset.inter_feat, dataset, rule)
    dataset._change_feat_format()
    rows = dataset.inter_feat
    users, times = (rows[field].numpy() for field in (dataset.uid_field, dataset.time_field))
    order = np.lexsort((times, users))  # ties keep the order of the file
    earlier = earlier_interactions(users[order], firsts_are_rows=not sequential)
    parts = by_global_time(users[order], times[order], earlier, split_moments, rule, _SEED)
    dataset._drop_unused_col()
    sizes = dict(zip(PARTS, map(len, parts), strict=True))
    if not all(sizes.values()):
        raise UserError(
            f"`eval_args` split GT leaves a part of [{dataset.dataset_name}] empty: {sizes}. It needs users with two "
            "interactions before the moment and users who are active after it; change the quantile"
        )
    datasets = []
    for part in parts:
        chosen = torch.from_numpy(order[part])
        rows_of_part = {field: values[chosen] for field, values in dataset.inter_feat.interaction.items()}
        datasets.append(dataset.copy(Interaction(rows_of_part)))
        datasets[-1].moments, datasets[-1].histories = split_moments, torch.from_numpy(earlier[part])
    dataset.logger.info(
        f"{set_color('Global time split', 'blue')}: trained until {trained_until(datasets[0]):.0f}, tested after "
        f"{split_moments.test:.0f}; rows of train, valid and test: {[*sizes.values()]}"
    )
    return datasets


def _moments_of(log: Any, dataset: Any, rule: GlobalTime) -> Moments:
    """Return the moments of a whole log; its times are as exact as RecBole's rows have them."""
    users, times = (np.asarray(log[field]) for field in (dataset.uid_field, dataset.time_field))
    return moments(users.astype(np.int64), times.astype(np.float32), rule)


def trained_until(train: Any) -> float:
    """Return the moment after which nothing may be trained."""
    split_moments: Moments = train.moments
    rule = global_time(train.config["eval_args"]["split"]["GT"])
    return split_moments.validation if rule.validation == "GT" else split_moments.test
