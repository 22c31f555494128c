"""``eval_args: {split: {GT: ...}}``: any RecBole data set cut at one moment for all users."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from recbole.config import Config
from recbole.data.dataset import Dataset, SequentialDataset
from recbole.data.interaction import Interaction
from recbole.utils import set_color

from recbole_bert4rec.core.global_time import GlobalTime, Moments, by_global_time, earlier_interactions, moments
from recbole_bert4rec.options.checks import mistakes_of_split
from recbole_bert4rec.plugin.splitting import PARTS
from recbole_bert4rec.system.errors import UserError

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


def _rule_of(config: Config) -> GlobalTime:
    split = config["eval_args"]["split"]
    if mistakes := mistakes_of_split(split):
        raise UserError(" ".join(mistakes))
    return GlobalTime(**split["GT"])


def build_by_global_time(dataset: Any) -> list[Any]:
    """Split a data set, as its ``build`` does under RecBole's own protocols.

    Each part keeps the ``moments`` of the split and, as ``histories``, the number of interactions that its user had
    before each row's target, which RecBole's rows of general models lack.
    """
    if dataset.time_field not in dataset.inter_feat:
        raise UserError(f"eval_args: split GT needs the time column {dataset.time_field!r}; name it in load_col")
    rule = _rule_of(dataset.config)
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
    rule = _rule_of(train.config)
    return split_moments.validation if rule.validation == "GT" else split_moments.test
