"""Split rows into train, valid and test under ``eval_args``: as RecBole does, or at one moment for all users.

Leave-one-out of 20 million rows takes 2 s and 0.6 GB here, and 40 to 80 s and 1.5 GB by RecBole's loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from recbole.data.dataset import Dataset, SequentialDataset
from recbole.data.interaction import Interaction
from recbole.utils import set_color

from recbole_bert4rec.core.segments import runs
from recbole_bert4rec.options.checks import mistakes_of_split
from recbole_bert4rec.system.errors import UserError

PARTS = ("train", "valid", "test")
EVERYTHING = {"RS": [1, 0, 0]}
"""A split that trains on all rows, for a model to deploy."""
_FROM_THE_END = MappingProxyType({"valid_and_test": (2, 1), "valid_only": (1, 0), "test_only": (1, 1)})
"""Where a user's validation and test begin in leave-one-out, in rows from the end."""
Index = NDArray[np.int64]


def split_rows(
    users: NDArray[np.int64],
    times: NDArray[np.float32],
    arguments: dict[str, Any],
    bounds_of: Callable[[int, list[float]], Sequence[int]],
) -> list[Index]:
    """Split rows (R,), which are sorted by user and time, into RecBole's parts in RecBole's order."""
    mode, value = next(iter((arguments["split"] or {"none": None}).items()))
    group_by = str(arguments["group_by"]).lower()
    ratios = [ratio / sum(value) for ratio in value] if isinstance(value, list) else []
    if mode == "RS" and group_by == "none":
        return np.split(np.argsort(times, kind="stable"), bounds_of(len(times), ratios))
    begin, size = runs(users)
    user = np.repeat(np.arange(len(begin)), size)
    if mode == "LS" and value in _FROM_THE_END:
        cuts = [np.maximum(1, size - held_out) for held_out in _FROM_THE_END[value]]  # one row is always trained
    elif mode == "RS" and group_by == "user":
        sizes, of_size = np.unique(size, return_inverse=True)
        cuts = list(np.array([bounds_of(int(number), ratios) for number in sizes])[of_size].T)
    elif mode == "TS":
        early = np.bincount(user, weights=times <= np.percentile(times, 100 * (1 - ratios[-1]))).astype(np.int64)
        cuts = [(early * (ratios[0] / (1 - ratios[2]))).astype(np.int64), early]
    else:
        raise UserError(
            f"eval_args: split {arguments['split']} with group_by {arguments['group_by']!r} is not known; use group_by "
            "user, or none with {'RS': [.8, .1, .1]}"
        )
    rank = np.arange(len(users)) - begin[user]
    part = (rank >= cuts[0][user]).astype(np.int8) + (rank >= cuts[1][user])
    first = np.argsort(times[begin], kind="stable")  # RecBole's order of users: by the time of their first row
    moved = begin[first] - (size[first].cumsum() - size[first])
    order = np.arange(len(users)) + np.repeat(moved, size[first])
    part = part[order]
    return [order[part == number] for number in range(len(PARTS))]


def keep_valid_users(parts: list[Index], count: int | None, seed: int) -> list[Index]:
    """Validate on ``count`` drawn users only, and train on the validation rows of all others.

    Validating all users keeps the item before the test item out of training (Petrov and Macdonald, RecSys 2022).
    """
    if count is None:
        return parts
    train, valid, test = parts
    if count > len(valid):
        raise UserError(f"`valid_users` is {count}, but only {len(valid)} users have a validation item; use fewer")
    validated = np.zeros(len(valid), dtype=bool)
    validated[np.random.default_rng(seed).choice(len(valid), count, replace=False)] = True
    return [np.concatenate([train, valid[~validated]]), valid[validated], test]


def check_not_empty(sizes: Sequence[int], split: dict[str, Any], dataset: str) -> None:
    """Refuse a split that asks for a part and leaves it without rows."""
    mode, value = next(iter(split.items()))
    needed = [True, value != "test_only", value != "valid_only"]
    if mode in ("RS", "TS"):
        needed = [ratio > 0 for ratio in value]
    for name, size, wanted in zip(PARTS, sizes, needed, strict=True):
        if wanted and not size:
            raise UserError(
                f"the {name} part is empty: eval_args split {split} leaves no interaction of [{dataset}] for it. Use "
                "another split, or users with 4 interactions or more"
            )


class Moments(NamedTuple):
    """The moment after which interactions are tested, and the earlier one after which ``GT`` validates."""

    validation: float
    test: float


def asks_for_global_time(eval_args: object) -> bool:
    """Tell whether ``eval_args`` ask for a split at one moment."""
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
    """Split a data set at one moment, so that nothing later is trained.

    Gusak et al.: Time to Split. RecSys 2025 (arXiv 2507.16289). ``histories`` of each part counts the interactions that
    a row's user had before its target, which RecBole's rows of general models lack.
    """
    if dataset.time_field not in dataset.inter_feat:
        raise UserError(f"eval_args: split GT needs the time column {dataset.time_field!r}; name it in load_col")
    rule: Any = dataset.config["eval_args"]["split"]["GT"]
    if mistakes := mistakes_of_split({"GT": rule}):
        raise UserError(" ".join(mistakes))
    validation = rule.get("validation", "GT")
    users, times = (np.asarray(dataset.inter_feat[field]) for field in (dataset.uid_field, dataset.time_field))
    # times are as exact as RecBole's rows have them
    at = moments(users.astype(np.int64), times.astype(np.float32), rule.get("quantile", 0.9))
    dataset._change_feat_format()
    users, times = (dataset.inter_feat[field].numpy() for field in (dataset.uid_field, dataset.time_field))
    order = np.lexsort((times, users))  # ties keep the order of the file
    users, times = users[order], times[order]
    earlier = earlier_interactions(users, firsts_are_rows=not isinstance(dataset, SequentialDataset))
    parts = by_global_time(users, times, earlier, at, validation)
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
        datasets[-1].histories = torch.from_numpy(earlier[part])
    trained_until = at.validation if validation == "GT" else at.test
    dataset.logger.info(
        f"{set_color('Global time split', 'blue')}: trained until {trained_until:.0f}, tested after {at.test:.0f}; "
        f"rows of train, valid and test: {[*sizes.values()]}"
    )
    return datasets


def moments(users: Index, times: NDArray[np.float32], quantile: float) -> Moments:
    """Return the moments that split all interactions, (T,)."""
    test = np.quantile(times, quantile, method="lower")
    early = times <= test
    trained = early & (np.bincount(users[early], minlength=int(users.max()) + 1)[users] > 1)
    left = times[trained] if trained.any() else times[early]
    return Moments(float(np.quantile(left, quantile, method="lower")), float(test))


def by_global_time(
    users: Index, times: NDArray[np.float32], earlier: Index, at: Moments, validation: str
) -> list[Index]:
    """Return the rows of train, valid and test, given users, times and numbers of earlier interactions, (R,) each.

    Rows are ordered by user, then time. The last interaction of each user after the moment is tested. The rest is split
    by the same rule (``GT``), or the last interaction of each user in it is validated (``LTI``). A user's first
    interaction is never a target; a user with no other one before training ends is not trained.
    """
    early, later = times <= at.test, earlier > 0
    test = _last_of_users(users, ~early & later)
    trained = times <= at.validation if validation == "GT" else early
    valid = _last_of_users(users, early & later & ~trained if validation == "GT" else early & later)
    trained[valid] = False
    active = np.unique(users[trained & later])  # have two interactions or more in training
    return [np.flatnonzero(trained & np.isin(users, active)), valid, test]


def _last_of_users(users: Index, candidates: NDArray[np.bool_]) -> Index:
    """Return the last row of each user that is a candidate."""
    rows = np.flatnonzero(candidates)
    return rows[np.diff(users[rows], append=-1) != 0]


def earlier_interactions(users: Index, firsts_are_rows: bool) -> Index:
    """Count each row's earlier interactions of its user, (R,); users are ascending.

    A user's first interaction is a row for general models; for sequential ones it is only a history.
    """
    return np.arange(len(users)) - np.repeat(*runs(users)) + (0 if firsts_are_rows else 1)
