"""Begin a training with the weights of a checkpoint of an older log; items are matched by their external ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from logging import getLogger
from typing import Any, TypedDict

import numpy as np
import pandas as pd
import torch
from recbole.config import Config
from torch import Tensor

from recbole_bert4rec import checkpoints
from recbole_bert4rec.core.growth import CONTENTS, FEATURE_VALUES, encoder_rows, feature_table, rows_for
from recbole_bert4rec.core.ranker import ITEM_DIGEST
from recbole_bert4rec.options.table import SHAPES_WEIGHTS
from recbole_bert4rec.options.user_models import class_name
from recbole_bert4rec.plugin.contents import check_contents
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loading import item_tokens
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.system.constants import FOR_THE_USER, OUR_MODELS, PADDING
from recbole_bert4rec.system.errors import UserError


class WarmStart(TypedDict):
    """The checkpoint that a training began with."""

    file: str
    kept: int  # items of the log that it knows
    new: int  # items of the log that it does not know
    gone: int  # items that it knows and the log lacks


def words(warm: WarmStart) -> str:
    """Describe a warm start in a line."""
    return f"{warm['kept']:,} items known, {warm['new']:,} new, {warm['gone']:,} forgotten"


def changed_since(stored: Mapping[str, Any], config: Config, names: Iterable[str]) -> str:
    """Say which of the named options have other values in a checkpoint; "" if none."""
    stored = {**stored, "model": class_name(stored["model"])}
    return "; ".join(
        f"the checkpoint has {name}={stored.get(name)!r}, this run {config[name]!r}"
        for name in names
        if stored.get(name) != config[name]
    )


def check_shapes(config: Config, stored: Mapping[str, Any]) -> None:
    """Refuse a configuration that does not fit the weights that ``warm_start`` names."""
    if changed := changed_since(stored, config, ("model", *SHAPES_WEIGHTS)):
        path = config["warm_start"]
        raise UserError(
            f"cannot begin with the weights of {path}: {changed}; leave these options out to take the file's"
        )


def begin_warm(config: Config, model: BERT4Rec, training: BERT4RecDataset) -> WarmStart:
    """Load the weights that ``warm_start`` names into a model."""
    path = str(config["warm_start"])
    state = checkpoints.read(path)
    check_shapes(config, state["config"])
    old, tokens, weights = state["item_tokens"], item_tokens(training), state["state_dict"]
    source = _places(old, tokens)
    known = int((source != PADDING).sum())
    if not known:
        raise UserError(
            f"{path} knows no item of {training.dataset_name!r}: it knows {len(old) - 1}, such as {old[-1]!r}; the "
            f"data set has {len(tokens) - 1}, such as {tokens[-1]!r}. Give a checkpoint of the same log"
        )
    check_contents(path, weights, model.state_dict(), same=False)
    with checkpoints.explain_misfit(path):
        by_item = encoder_rows(weights, source, _beside_new_ones(training, source))
        of_the_log = (ITEM_DIGEST, CONTENTS, FEATURE_VALUES)
        by_item |= {name: values for name, values in model.named_buffers() if name.startswith(of_the_log)}
        for number, (column, values) in enumerate(feature_values(training).items()):
            table = feature_table(number)
            by_item[table] = rows_for(weights[table], _places(state["feature_values"][column], values))
        if config["model"] not in OUR_MODELS and not torch.equal(source, torch.arange(len(old))):
            for name, weight in weights.items():
                if name not in by_item and weight.dim() and len(weight) in (len(old), len(old) + 1):
                    raise UserError(
                        f"cannot begin with the weights of {path}: {name!r} has {len(weight)} rows, probably one for "
                        f"each of {len(old) - 1} items, and which rows the items of this data set get is not known"
                    )
        model.load_state_dict({**weights, **by_item})
    warm = WarmStart(file=path, kept=known, new=len(tokens) - 1 - known, gone=len(old) - 1 - known)
    getLogger(FOR_THE_USER).info(f"begins with the weights of {path}: {words(warm)}")
    if warm["gone"]:
        example = np.setdiff1d(old, tokens)[0]
        getLogger(FOR_THE_USER).warning(
            f"{warm['gone']:,} items of {path}, such as {str(example)!r}, are not in {training.dataset_name!r} and are "
            "forgotten; the new model cannot recommend them"
        )
    return warm


def feature_values(training: BERT4RecDataset) -> dict[str, list[str]]:
    """Return the values of each categorical feature of items, by number, padding first."""
    columns = [name for name in training.config["selected_features"] or () if name not in training.numeric_features]
    return {name: training.field2id_token[name].tolist() for name in columns}


def _places(old: list[str], tokens: list[str]) -> Tensor:
    """Return the checkpoint's number of each id, PADDING for unknown ones; (N,)."""
    rows = pd.Index(old).get_indexer(pd.Index(tokens))
    return torch.from_numpy(np.where(rows < 0, PADDING, rows).astype(np.int64))


def _beside_new_ones(training: BERT4RecDataset, source: Tensor) -> tuple[Tensor, Tensor]:
    """Return new items, and the checkpoint's numbers of known items beside them in training; (P,), (P,)."""
    _, begin, length = training.slices()
    earlier, later = training.sequences.slices(begin, length).adjacent()
    item, other = torch.cat([earlier, later]), torch.cat([later, earlier])
    chosen = (source[item] == PADDING) & (source[other] != PADDING)
    return item[chosen], source[other[chosen]]
