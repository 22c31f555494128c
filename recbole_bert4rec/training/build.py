"""Data, model and trainer of a configuration, made once for a run, a refit, a search, a comparison and the tests.

The seed is set before the data are read and again before the model is made, as ``run_recbole`` does, so that whoever
builds the same configuration draws the same random numbers.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import getLogger
from typing import TypeVar
from urllib.error import URLError

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
from recbole_bert4rec.plugin.config import warn_of_no_effect, without_effect
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.ranks import SeenRule

Result = TypeVar("Result")
_MISTAKES = (ValueError, KeyError, TypeError, NotImplementedError, RuntimeError, SyntaxError, AssertionError, OSError)


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
    parts = _of_data(config, lambda: data_preparation(config, whole))
    warn_of_no_effect(config, named_before)  # where the data decide what `auto` is
    return Data(config, whole, table, interactions, period, *parts)


def read_dataset(config: Config) -> Dataset:
    """Read the files of the data set, which is not yet split."""
    return _of_data(config, lambda: create_dataset(config))


def _of_data(config: Config, step: Callable[[], Result]) -> Result:
    """Run a step on the files of the data set; a mistake in them becomes one line."""
    name = config["dataset"]
    return translate_errors(step, f"data set {name!r}", os.path.join(config["data_path"], f"{name}.inter"))


def translate_errors(step: Callable[[], Result], name: str, file: str | None = None) -> Result:
    """Run a step of RecBole; a mistake that RecBole itself noticed becomes one line."""
    try:
        return step()
    except URLError as error:
        raise UserError(
            f"{name} is not here and cannot be downloaded ({error.reason}); write it to {file or 'its folder'}"
        ) from error
    except _MISTAKES as error:
        last_frame = traceback.extract_tb(error.__traceback__)[-1].filename
        if f"{os.sep}recbole{os.sep}" not in last_frame:
            raise
        raise UserError(f"{name}: {str(error) or type(error).__name__}") from error
