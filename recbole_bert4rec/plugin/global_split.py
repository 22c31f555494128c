"""``eval_args: {split: {GT: ...}}``: any RecBole data set cut at one moment for all users."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction
from recbole.utils import set_color

from recbole_bert4rec.constants import TARGET_POSITION
from recbole_bert4rec.data.global_time import GlobalTime, Moments, Part, by_global_time, earlier_interactions, moments
from recbole_bert4rec.errors import UserError

_SEED = 0
"""Of the draws of targets and users: the same for every run, so that all are tested on the same rows."""


def asks_for_global_time(eval_args: object) -> bool:
    """Tell whether a protocol asks for this split."""
    split = eval_args.get("split") if isinstance(eval_args, dict) else None
    return isinstance(split, dict) and "GT" in split


def splits_by_global_time(dataset: Dataset) -> bool:
    """Tell whether a data set is to be split so; benchmark files are split already."""
    return asks_for_global_time(dataset.config["eval_args"]) and not dataset.config["benchmark_filename"]


def build_by_global_time(dataset: Any) -> list[Any]:
    """Split a data set, as its ``build`` does under RecBole's own protocols.

    Each part keeps the ``moments`` of the split and, as ``histories``, how many interactions its user had before each
    row's target: RecBole's rows do not tell it of general models.

    Args:
        dataset: read and filtered.

    Returns:
        Its train, valid and test parts.

    Raises:
        UserError: the rule has mistakes, or there are no times.
    """
    if dataset.time_field not in dataset.inter_feat:
        raise UserError(f"eval_args: split GT needs the time column {dataset.time_field!r}; name it in load_col")
    rule = GlobalTime.of(dataset.config["eval_args"]["split"]["GT"])
    at = moments(np.asarray(dataset.inter_feat[dataset.time_field], dtype=np.float32), rule)
    dataset._change_feat_format()
    rows = dataset.inter_feat
    users, times = (rows[field].numpy() for field in (dataset.uid_field, dataset.time_field))
    order = np.lexsort((times, users))  # ties keep the order of the file
    sequential = hasattr(dataset, "item_list_length_field")
    earlier = earlier_interactions(users[order], firsts_are_rows=not sequential)
    parts = by_global_time(users[order], times[order], earlier, at, rule, _SEED)
    dataset._drop_unused_col()
    datasets = [dataset.copy(_with_histories(dataset, order, part)) for part in parts]
    for own, part in zip(datasets, parts, strict=True):
        own.moments, own.histories = at, torch.from_numpy(earlier[part.histories])
    dataset.logger.info(
        set_color("Global time split", "blue")
        + f": trained until {trained_until(datasets[0]):.0f}, tested after {at.test:.0f}; rows of train, valid and "
        f"test: {[len(one) for one in datasets]}"
    )
    return datasets


def _with_histories(dataset: Any, order: Any, part: Part) -> Interaction:
    """Return the rows of a part; with target ``all`` their histories end where those of other rows do."""
    rows = dataset.inter_feat
    own, before = torch.from_numpy(order[part.rows]), torch.from_numpy(order[part.histories])
    of_history = {TARGET_POSITION, getattr(dataset, "item_list_length_field", None)}
    suffix: str = dataset.config["LIST_SUFFIX"]
    return Interaction(
        {
            field: values[before if field in of_history or field.endswith(suffix) else own]
            for field, values in rows.interaction.items()
        }
    )


def trained_until(train: Any) -> float:
    """Return the moment after which nothing may be trained."""
    at: Moments = train.moments
    rule = GlobalTime.of(train.config["eval_args"]["split"]["GT"])
    return at.validation if rule.validation == "GT" else at.test


def check_no_leak(train_data: AbstractDataLoader) -> None:
    """Refuse to train on what happened after the moment of the split.

    Args:
        train_data: loader of the training part of any model.

    Raises:
        UserError: its rows hold something later.
    """
    train: Any = train_data._dataset
    if not hasattr(train, "moments"):
        return
    latest, allowed = float(train.inter_feat[train.time_field].max()), trained_until(train)
    if latest > allowed:
        raise UserError(f"the training part has an interaction at {latest:.0f}, but must end at {allowed:.0f}")
