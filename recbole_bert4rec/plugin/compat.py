"""Replacements for code of RecBole that fails with today's libraries; they change no figure."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import sys
from collections.abc import Callable
from logging import getLogger
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import recbole.data.utils as recbole_data
import recbole.utils.logger as recbole_logger
import recbole.utils.utils as recbole_utils
import torch
from recbole.config import Config
from recbole.evaluator import Collector
from recbole.trainer import Trainer
from recbole.utils import init_seed

from recbole_bert4rec import checkpoints
from recbole_bert4rec.checkpoints import ForeignFileError
from recbole_bert4rec.options.user_models import known_as
from recbole_bert4rec.plugin import build
from recbole_bert4rec.plugin.config import stored_config
from recbole_bert4rec.system.errors import UserError

_TRUSTED: set[str] = set()


def trust(checkpoint: Path | str) -> None:
    """Let RecBole's trainers unpickle a checkpoint that this run itself has saved."""
    _TRUSTED.add(os.path.abspath(checkpoint))


def load_checkpoint(file: str, map_location: torch.device | str | None = None) -> Any:
    """Read a checkpoint; today's torch unpickles none of RecBole's, so those that this process wrote are trusted."""
    if os.path.abspath(file) in _TRUSTED:
        return torch.load(file, map_location, weights_only=False)
    try:
        return torch.load(file, map_location)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{file} is not read: if RecBole wrote it, it is a pickle, which can run any code when it is read; if you "
            "trust its maker, torch reads it with the environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1"
        ) from error


def save_and_remember(
    original: Callable[..., None], self: Trainer, epoch: int, verbose: bool = True, **kwargs: str
) -> None:
    """Remember the files that this process wrote: pickles that it may read."""
    original(self, epoch, verbose, **kwargs)
    trust(kwargs.get("saved_model_file", self.saved_model_file))


def load_data_and_model(model_file: str, model: str | type | None = None) -> tuple[Any, ...]:
    """Return configuration, model, data set and loaders of a checkpoint; unlike RecBole's, ours are no pickles."""
    if model is not None:
        known_as(model)
    try:
        state = checkpoints.read(model_file)
        config = stored_config(state["config"])
    except ForeignFileError:
        state = load_checkpoint(model_file, map_location="cpu")
        if not isinstance(state, dict) or not isinstance(state.get("config"), Config):
            raise UserError(f"{model_file} is not a checkpoint of RecBole: there is no configuration in it") from None
        config = state["config"]
    init_seed(config["seed"], config["reproducibility"])
    recbole_logger.init_logger(config)
    getLogger().info(config)
    ours: Any = build if "item_tokens" in state else recbole_data
    dataset = ours.create_dataset(config)
    getLogger().info(dataset)
    loaders = ours.data_preparation(config, dataset)
    training = loaders[0]._dataset
    init_seed(config["seed"], config["reproducibility"])
    model_class: Any = config.model_class if ours is build else recbole_utils.get_model(config["model"])
    network = model_class(config, training).to(config["device"])
    with checkpoints.explain_misfit(model_file):
        network.load_state_dict(state["state_dict"])
        network.load_other_parameter(state.get("other_parameter"))
    return (config, network, dataset, *loaders)


def barrier() -> None:
    """Wait for the other processes, if any; RecBole waits after a download even in a single process, which raises."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()


def report(**metrics: float) -> None:
    """Report metrics to Ray, which takes a dictionary today; RecBole reports to it even if no trial runs."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        importlib.import_module("ray.air.session").report(metrics)


def collect_values(original: Callable[[Collector], Any], self: Collector) -> Any:
    """Leave plain numbers as they are; RecBole calls ``cpu()`` on all values, such as the numbers of ItemCoverage."""
    everything = self.data_struct._data_dict
    plain = {key: value for key, value in everything.items() if not hasattr(value, "cpu")}
    for key in plain:
        del everything[key]
    collected = original(self)
    everything.update(plain)
    collected._data_dict.update(copy.deepcopy(plain))
    return collected


def compatibility_settings(original: Callable[[Config], None], self: Config) -> None:
    """Add numpy's names from before version 2, such as `float_`, without which RecBole makes no configuration."""
    with patch.multiple(np, create=True, float_=np.float64, complex_=np.complex128, unicode_=np.str_):
        original(self)
