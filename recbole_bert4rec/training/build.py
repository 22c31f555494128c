"""Data, model and trainer of a configuration, made once for a run, a refit, a search, a comparison and the tests.

The seed is set before the data are read and again before the model is made, as ``run_recbole`` does, so that whoever
builds the same configuration draws the same random numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from logging import getLogger

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.data.transform import construct_transform
from recbole.utils import get_flops, init_seed, set_color

from recbole_bert4rec.options.user_models import is_ours
from recbole_bert4rec.plugin.build import create_dataset, data_preparation, make_model, make_trainer
from recbole_bert4rec.plugin.callbacks import Callback, Observed
from recbole_bert4rec.plugin.config import explained, warn_of_no_effect, without_effect
from recbole_bert4rec.training.ranks import SeenRule


@dataclass
class Data:
    """The data of a run: all of them, and the loaders of its parts."""

    config: Config
    dataset: Dataset
    table: pd.DataFrame | None  # all interactions, uncut; None where no rule about seen items needs them
    interactions: int
    period: NDArray[np.float64]  # their first and last time; empty without times
    train: AbstractDataLoader
    valid: AbstractDataLoader
    test: AbstractDataLoader


def build(config: Config, callbacks: Iterable[Callback] = ()) -> tuple[Data, Observed]:
    """Read the data; make a model, which is not trained yet, and the trainer that has it."""
    data = load_data(config)
    return data, trainer_of(data, callbacks)


def trainer_of(data: Data, callbacks: Iterable[Callback] = ()) -> Observed:
    """Make a model, which is not trained yet, and the trainer that has it."""
    config, logger = data.config, getLogger()
    model = make_model(config, data.train)
    flops = get_flops(model, data.dataset, config["device"], logger, construct_transform(config))
    logger.info(set_color("FLOPs", "blue") + f": {flops}")
    if data.table is not None:
        callbacks = (SeenRule(config["exclude_seen"], data.table, data.valid, data.test), *callbacks)
    return make_trainer(config, model, callbacks)


def load_data(config: Config) -> Data:
    """Set the seed, read the data set and split it."""
    init_seed(config["seed"], config["reproducibility"])
    named_before = without_effect(config)
    whole = read_dataset(config)
    table, interactions, period = whole.inter_feat, whole.inter_num, np.empty(0)
    if whole.time_field in table:
        period = np.array([table[whole.time_field].min(), table[whole.time_field].max()], dtype=np.float64)
    if is_ours(config.model_class) or config["exclude_seen"] is None:  # ours follow the rule by themselves
        table = None
    getLogger().info(whole)
    with _reading(config):
        parts = data_preparation(config, whole)
    warn_of_no_effect(config, named_before)  # where the data decide what `auto` is
    return Data(config, whole, table, interactions, period, *parts)


def read_dataset(config: Config) -> Dataset:
    """Read the files of the data set, which is not yet split."""
    with _reading(config):
        return create_dataset(config)


def _reading(config: Config) -> AbstractContextManager[None]:
    """Turn mistakes in the files of the data set into one line."""
    name = config["dataset"]
    return explained(f"data set {name!r}", os.path.join(config["data_path"], f"{name}.inter"))
