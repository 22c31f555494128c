"""Split rows into train, valid and test under ``eval_args``, and refuse empty parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recbole_bert4rec.core import splits
from recbole_bert4rec.system.errors import UserError

PARTS = ("train", "valid", "test")


def split_rows(
    users: NDArray[np.int64],
    times: NDArray[np.float32],
    arguments: dict[str, Any],
    bounds_of: Callable[[int, list[float]], Sequence[int]],
) -> list[splits.Index]:
    """Split rows, sorted by user and time (R,), as RecBole does; the parts, their rows and order are the same."""
    mode, value = next(iter((arguments["split"] or {"none": None}).items()))
    group_by = str(arguments["group_by"]).lower()
    nothing = np.empty(0, dtype=np.int64)
    groups = splits.Groups(users, times)
    if mode == "LS" and value == "valid_and_test":
        return splits.leave_one_out(groups, 2)
    if mode == "LS" and value in ("valid_only", "test_only"):
        train, held_out = splits.leave_one_out(groups, 1)
        return [train, held_out, nothing] if value == "valid_only" else [train, nothing, held_out]
    ratios = [ratio / sum(value) for ratio in value] if isinstance(value, list) else []
    if mode == "RS" and group_by == "user":
        return splits.by_ratio(groups, lambda size: bounds_of(size, ratios))
    if mode == "RS" and group_by == "none":
        return np.split(np.argsort(times, kind="stable"), bounds_of(len(times), ratios))
    if mode == "TS":
        return splits.by_time(groups, times, ratios)
    raise UserError(
        f"eval_args: split {arguments['split']} with group_by {arguments['group_by']!r} is not known; use "
        "{'LS': 'valid_and_test'}, {'LS': 'valid_only'}, {'LS': 'test_only'}, {'RS': [.8, .1, .1]} with group_by "
        "user or none, or {'TS': [.8, .1, .1]}"
    )


def keep_valid_users(parts: list[splits.Index], count: int | None, seed: int) -> list[splits.Index]:
    """Leave only some users in validation; the validation rows of all others are trained on."""
    if count is None:
        return parts
    if count > len(parts[1]):
        raise UserError(f"`valid_users` is {count}, but only {len(parts[1])} users have a validation item; use fewer")
    return splits.train_on_all_but(count, parts, seed)


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
