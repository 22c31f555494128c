"""Begins a training with the weights of a checkpoint of an older log; items are matched by their external ids."""

from __future__ import annotations

from collections.abc import Mapping
from logging import getLogger
from typing import Any, TypedDict

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from recbole.config import Config
from torch import Tensor

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.core.beyond_paper import Contents
from recbole_bert4rec.core.growth import (
    CONTENTS,
    FEATURE_VALUES,
    ITEM_EMBEDDING,
    OUTPUT_BIAS,
    encoder_rows,
    feature_table,
    rows_for,
)
from recbole_bert4rec.core.ranker import ITEM_DIGEST
from recbole_bert4rec.options.table import SHAPES_WEIGHTS
from recbole_bert4rec.options.user_models import class_name
from recbole_bert4rec.plugin.contents import check_contents
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loading import item_tokens
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.system.constants import FOR_THE_USER, OUR_MODELS, PADDING
from recbole_bert4rec.system.errors import UserError

_OF_THE_LOG = {ITEM_DIGEST, *(CONTENTS + name for name in Contents._fields)}
"""Entries of the weights that are not learnt but told by the log."""


class WarmStart(TypedDict):
    """The checkpoint that a training began with.

    Keys:
        file: the checkpoint.
        kept: items of the log that it knows.
        new: items of the log that it does not know.
        gone: items that it knows and the log lacks.
    """

    file: str
    kept: int
    new: int
    gone: int


def words(warm: WarmStart) -> str:
    """Say it in a line."""
    return f"{warm['kept']:,} items known, {warm['new']:,} new, {warm['gone']:,} forgotten"


def check_shapes(config: Config, stored: Mapping[str, Any]) -> None:
    """Refuse a configuration that does not fit the weights that ``warm_start`` names."""
    stored = {**stored, "model": class_name(stored["model"])}
    changed = [name for name in ("model", *SHAPES_WEIGHTS) if stored.get(name) != config[name]]
    if changed:
        differ = "; ".join(f"{name}={stored.get(name)!r} there, {config[name]!r} here" for name in changed)
        path = config["warm_start"]
        raise UserError(
            f"cannot begin with the weights of {path}: {differ}; leave these options out to take the file's"
        )


def begin_warm(config: Config, model: BERT4Rec, training: BERT4RecDataset) -> WarmStart:
    """Give a model the weights that ``warm_start`` names."""
    path = str(config["warm_start"])
    state = checkpoint.read(path)
    check_shapes(config, state["config"])
    old, tokens = state["item_tokens"], item_tokens(training)
    rows = pd.Index(old).get_indexer(pd.Index(tokens))
    source = torch.from_numpy(np.where(rows < 0, PADDING, rows).astype(np.int64))
    known = int((source != PADDING).sum())
    if not known:
        raise UserError(
            f"{path} knows no item of {training.dataset_name!r}: it knows {len(old) - 1}, such as {old[-1]!r}; the "
            f"data set has {len(tokens) - 1}, such as {tokens[-1]!r}. Give a checkpoint of the same log"
        )
    weights = state["state_dict"]
    check_contents(path, weights, model.state_dict(), same=False)
    with checkpoint.explain_misfit(path):
        grown = {**weights, **encoder_rows(weights, source, _beside_new_ones(training, source))}
        for number, (column, (values, size)) in enumerate(_features(config, training)):
            values_name, table_name = f"{FEATURE_VALUES}{number}", feature_table(number)
            ids = _feature_ids(weights[values_name], values, size, source)
            if ids is None:
                raise UserError(f"cannot begin with the weights of {path}: items have other values of {column!r} there")
            grown |= {values_name: values, table_name: rows_for(weights[table_name], ids)}
        grown |= {name: values for name, values in model.state_dict().items() if name in _OF_THE_LOG}
        if config["model"] not in OUR_MODELS:
            _check_weights_by_item(weights, source, path)
        model.load_state_dict(grown)
    warm = WarmStart(file=path, kept=known, new=len(tokens) - 1 - known, gone=len(old) - 1 - known)
    getLogger(FOR_THE_USER).info(f"begins with the weights of {path}: {words(warm)}")
    if warm["gone"]:
        example = np.setdiff1d(old, tokens)[0]
        getLogger(FOR_THE_USER).warning(
            f"{warm['gone']:,} items of {path}, such as {str(example)!r}, are not in {training.dataset_name!r} and are "
            "forgotten; the new model cannot recommend them"
        )
    return warm


def _check_weights_by_item(weights: dict[str, Tensor], source: Tensor, path: str) -> None:
    """Refuse a model of the user's own whose further weights seem to be by item, unless the items are as they were."""
    n_items = len(weights[OUTPUT_BIAS])
    if torch.equal(source, torch.arange(n_items)):
        return
    for name, weight in weights.items():
        known = name in {ITEM_EMBEDDING, OUTPUT_BIAS, *_OF_THE_LOG} or name.startswith(FEATURE_VALUES)
        if not known and weight.dim() and len(weight) in (n_items, n_items + 1):
            raise UserError(
                f"cannot begin with the weights of {path}: {name!r} has {len(weight)} rows, as if one for each of "
                f"{n_items - 1} items, and how they go over to other items is not known"
            )


def _beside_new_ones(training: BERT4RecDataset, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return new items and the checkpoint's numbers of the known items before and after them in training.

    *Shape:* (P,) each
    """
    _, begin, length = training.slices()
    earlier, later = training.sequences.slices(begin, length).adjacent()
    item, other = torch.cat([earlier, later]), torch.cat([later, earlier])
    chosen = (source[item] == PADDING) & (source[other] != PADDING)
    return item[chosen], source[other[chosen]]


def _features(config: Config, training: BERT4RecDataset) -> list[tuple[str, tuple[Tensor, int]]]:
    """Return the item features of the new log, with the names of their columns; numbers are contents."""
    columns = [name for name in config["selected_features"] if name not in training.numeric_features]
    return list(zip(columns, training.item_features(columns), strict=True)) if columns else []


def _feature_ids(old: Tensor, new: Tensor, size: int, source: Tensor) -> Tensor | None:
    """Return the checkpoint's number of each feature value, which the known items tell; its ids are not stored.

    :data:`PADDING` stands for values that no known item has; None where items contradict each other. *Shape:* (size,)
    """
    items = (source != PADDING).nonzero().squeeze(1)
    width = max(old.shape[1], new.shape[1])
    here, there = (F.pad(values, (0, width - values.shape[1])) for values in (new[items], old[source[items]]))
    none = torch.zeros(2, 1, dtype=torch.int64)  # no value is no value
    pairs = torch.cat([none, torch.stack([here.flatten(), there.flatten()])], dim=1).unique(dim=1)
    if any(len(ids.unique()) < len(ids) for ids in pairs):
        return None
    ids = torch.full((size,), PADDING)
    ids[pairs[0]] = pairs[1]
    return ids
