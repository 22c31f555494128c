"""Data, model and trainer of a configuration, made once for a run, a refit, a search, a comparison and the tests.

The seed is set before the data are read and again before the model is made, as ``run_recbole`` does, so that whoever
builds the same configuration draws the same random numbers.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from logging import getLogger
from typing import TypeVar
from urllib.error import URLError

from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.data.transform import construct_transform
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.trainer import Trainer
from recbole.utils import get_flops, init_seed, set_color

from recbole_bert4rec.plugin.build import create_dataset, data_preparation, make_model, make_trainer
from recbole_bert4rec.plugin.callbacks import Callback
from recbole_bert4rec.plugin.config import warn_of_no_effect, without_effect
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.interactions import Interactions
from recbole_bert4rec.training.seen import SeenRule, needs_seen_rule

Result = TypeVar("Result")
_MISTAKES = (ValueError, KeyError, TypeError, NotImplementedError, RuntimeError, SyntaxError, AssertionError, OSError)


@dataclass
class Data:
    """Holds the data of a run: all of them, and those of each part.

    Attributes:
        config: RecBole's configuration.
        dataset: the whole data set.
        interactions: all of its interactions, as they were before RecBole cut them into rows.
        train: loader of the training part.
        valid: loader of the validation part.
        test: loader of the test part.
    """

    config: Config
    dataset: Dataset
    interactions: Interactions
    train: AbstractDataLoader
    valid: AbstractDataLoader
    test: AbstractDataLoader


@dataclass
class Experiment:
    """All that a run needs: its data, and a trainer with its model, which are not trained yet.

    Attributes:
        data: see :class:`Data`.
        model: on its device.
        trainer: RecBole's for the model, with callbacks.
    """

    data: Data
    model: AbstractRecommender
    trainer: Trainer


def build(
    config: Config, callbacks: Iterable[Callback] = (), dataset: Dataset | None = None, count_flops: bool = False
) -> Experiment:
    """Read the data and make model and trainer."""
    data = load_data(config, dataset)
    model = make_model(config, data.train)
    if count_flops:
        logger = getLogger()
        flops = get_flops(model, data.dataset, config["device"], logger, construct_transform(config))
        logger.info(set_color("FLOPs", "blue") + f": {flops}")
    if needs_seen_rule(config):
        callbacks = (SeenRule(config["exclude_seen"], data.interactions, data.valid, data.test), *callbacks)
    trainer = make_trainer(config, model, callbacks)
    return Experiment(data, model, trainer)


def load_data(config: Config, dataset: Dataset | None = None) -> Data:
    """Set the seed, read the data set and split it."""
    init_seed(config["seed"], config["reproducibility"])

    def read() -> Data:
        whole = create_dataset(config) if dataset is None else dataset
        interactions = Interactions(whole.inter_feat, whole)
        getLogger().info(whole)
        return Data(config, whole, interactions, *data_preparation(config, whole))

    named_before = without_effect(config)
    data = _of_data(config, read)
    warn_of_no_effect(config, named_before)  # where the data decide what `auto` is
    return data


def read_dataset(config: Config) -> Dataset:
    """Read the files of the data set, which is not yet split."""
    return _of_data(config, partial(create_dataset, config))


def _of_data(config: Config, step: Callable[[], Result]) -> Result:
    """Run a step on the files of the data set; a mistake in them becomes one line."""
    name = config["dataset"]
    return translate_errors(step, f"data set {name!r}", os.path.join(config["data_path"], f"{name}.inter"))


def translate_errors(step: Callable[[], Result], name: str, file: str | None = None) -> Result:
    """Run a step of RecBole; a mistake that RecBole itself noticed becomes one line."""
    try:
        return step()
    except UserError:
        raise
    except URLError as error:
        raise UserError(
            f"{name} is not here and cannot be downloaded ({error.reason}); write it to {file or 'its folder'}"
        ) from error
    except _MISTAKES as error:
        last_frame = traceback.extract_tb(error.__traceback__)[-1].filename
        if f"{os.sep}recbole{os.sep}" not in last_frame:
            raise
        raise UserError(f"{name}: {str(error) or type(error).__name__}") from error
