"""Everything that importing this package changes in RecBole: the list ``HOOKS``, with a reason for each change.

With them RecBole finds our models, data set, trainer, loaders and defaults by their names, and code of RecBole that
fails with today's libraries works. No other model changes. ``python -m recbole_bert4rec doctor`` prints the list.
"""

from __future__ import annotations

import functools
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from logging import getLogger
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas
import recbole
import recbole.data.dataset
import recbole.trainer
import torch
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.trainer import Trainer

from recbole_bert4rec.options.user_models import SHIPPED, is_ours, known_as, models_of_others
from recbole_bert4rec.plugin import compat, model
from recbole_bert4rec.plugin.baselines import UserRowsDataLoader, has_user_rows
from recbole_bert4rec.plugin.build import make_dataset
from recbole_bert4rec.plugin.candidates import CandidateDataLoader, create_samplers
from recbole_bert4rec.plugin.config import PluginConfig, check_options, is_served, lay_defaults
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.system.constants import (
    FOR_THE_USER,
    INSTALL_RECBOLE,
    MODEL_NAME,
    OUR_MODELS,
    STOCK_MODEL_NAME,
    SUPPORTED_RECBOLE,
)
from recbole_bert4rec.system.processes import refuse_unguarded
from recbole_bert4rec.system.stand_in import StandIn

_MODELS = "recbole.model.sequential_recommender"
_QUICK_START = "recbole.quick_start.quick_start"
"""It imports Ray, so its hooks wait until somebody imports it."""
# the module keeps its own global `BERT4Rec`, which `super(BERT4Rec, self)` in it needs
_stock = importlib.import_module(f"{_MODELS}.{MODEL_NAME.lower()}").BERT4Rec
RecBoleBERT4Rec = type(STOCK_MODEL_NAME, (_stock,), {"__module__": f"{_MODELS}.{STOCK_MODEL_NAME.lower()}"})


class Hook(NamedTuple):
    """One change of RecBole."""

    owner: str  # a module, or ``module:Class``; ``sys:modules`` for the table of modules
    name: str  # the attribute that changes, or the key of the table; ``torch.load`` changes for that file alone
    value: Any  # the new one, or a function that takes RecBole's own before the arguments
    line: str  # RecBole's file and line
    why: str = ""  # the reason, if not the docstring of the function
    wraps: bool = False  # whether ``value`` takes RecBole's own

    @property
    def reason(self) -> str:
        """Return the reason of the change, in one sentence."""
        return self.why or self.value.__doc__.partition("\n")[0]


def load_defaults(original: Callable[..., None], self: Config, name: str, model_class: type, dataset: str) -> None:
    """Lay our defaults over RecBole's, which reads its own folder alone; for other models only in our programs."""
    if not is_served(self):
        original(self, MODEL_NAME if model_class is RecBoleBERT4Rec else name, model_class, dataset)
        return
    lay_defaults(self, functools.partial(original, self), model_class, dataset)
    if not isinstance(self, PluginConfig) and name not in _OURS:
        _make_findable(model_class)


def get_dataloader(
    original: Callable[[Config, str], type[AbstractDataLoader]], config: Config, phase: str
) -> type[AbstractDataLoader]:
    """Return the loader of our models, or that of whole windows; RecBole has a fixed table of loaders."""
    if is_ours(config.model_class):
        if phase == "train":
            return WindowDataLoader
        mode = config["eval_args"]["mode"][phase]
        return original(config, phase) if mode in ("full", "labeled") else CandidateDataLoader
    on_windows = phase == "train" and is_served(config) and has_user_rows(config)
    return UserRowsDataLoader if on_windows else original(config, phase)


def run_recboles(*args: object, **kwargs: object) -> None:
    """Run RecBole's worker of ``nproc > 1``; its name in a pickle makes the new process register our models too."""
    _from_quick_start("run_recboles")(*args, **kwargs)


def objective_function(*args: object, **kwargs: object) -> Any:
    """Run HyperTuning's objective; its name in a pickle makes Ray's workers register our models too."""
    return _from_quick_start("objective_function")(*args, **kwargs)


def _from_quick_start(name: str) -> Any:
    importlib.import_module(_QUICK_START)
    return _originals[_QUICK_START, name]


def _make_findable(model_class: type) -> None:
    """Let RecBole find a subclass of ours by its name, and warn if it would find another model instead."""
    name = known_as(model_class)
    data_set_is_known = hasattr(recbole.data.dataset, f"{name}Dataset")
    if name not in models_of_others():
        module = ModuleType(f"{_MODELS}.{name.lower()}")
        module.__spec__ = ModuleSpec(module.__name__, None)
        vars(module)[name] = model_class
        sys.modules[module.__name__] = module
    elif not data_set_is_known:
        getLogger(FOR_THE_USER).warning(
            f"{model_class.__module__}.{name} has the name of a model of RecBole, which its run_recbole looks up by "
            "that name and takes instead; recbole_bert4rec.run takes the class"
        )
    if not data_set_is_known:
        setattr(recbole.data.dataset, f"{name}Dataset", make_dataset)
    setattr(recbole.trainer, f"{name}Trainer", vars(recbole.trainer)[f"{MODEL_NAME}Trainer"])


def _trainer_of(config: Config, model: AbstractRecommender) -> Trainer:
    """Make the trainer of a model that has the name of one of ours, and may be a class of the user's."""
    return (BERT4RecTrainer if is_ours(type(model)) else Trainer)(config, model)


_DATA = "recbole.data.dataset"
_CONFIG = "recbole.config.configurator:Config"
_TRAINER = "recbole.trainer.trainer"
_COLLECTOR = "recbole.evaluator.collector:Collector"
_FOUND = "RecBole finds a model in a module of its lower-case name; its own BERT4Rec stays under another one"
_OURS = {**dict.fromkeys(OUR_MODELS, model.__name__), **SHIPPED}
"""The modules of our models."""
HOOKS = [
    Hook(owner, key, value, "utils/utils.py:72", _FOUND)
    for name, home in {STOCK_MODEL_NAME: __name__, **_OURS}.items()
    for owner, key, value in (
        ("sys:modules", f"{_MODELS}.{name.lower()}", importlib.import_module(home)),
        (_MODELS, name.lower(), importlib.import_module(home)),
        (_MODELS, name, getattr(importlib.import_module(home), name)),
    )
]
HOOKS += [
    Hook(_DATA, f"{name}Dataset", make_dataset, "data/utils.py:42", "RecBole finds a model's data set by this name")
    for name in _OURS
]
HOOKS += [
    Hook(_CONFIG, "_load_internal_config_dict", load_defaults, "config/configurator.py:242", wraps=True),
    Hook(_CONFIG, "_set_default_parameters", check_options, "config/configurator.py:327", wraps=True),
    Hook(_CONFIG, "compatibility_settings", compat.compatibility_settings, "config/configurator.py:630", wraps=True),
    Hook("recbole.data.utils", "get_dataloader", get_dataloader, "data/utils.py:241", wraps=True),
    Hook("recbole.data.utils", "create_samplers", create_samplers, "data/utils.py:333", wraps=True),
    Hook(_QUICK_START, "run_recboles", run_recboles, "quick_start/quick_start.py:84"),
    Hook(_QUICK_START, "objective_function", objective_function, "quick_start/quick_start.py:196"),
    Hook(_QUICK_START, "load_data_and_model", compat.load_data_and_model, "quick_start/quick_start.py:250"),
    Hook(_QUICK_START, "tune.report", compat.report, "quick_start/quick_start.py:223"),
    Hook(_TRAINER, "torch.load", compat.load_checkpoint, "trainer/trainer.py:583"),
    Hook(f"{_TRAINER}:Trainer", "_save_checkpoint", compat.save_and_remember, "trainer/trainer.py:308", wraps=True),
    Hook(
        "recbole.trainer.hyper_tuning",
        "np.random.RandomState",
        np.random.default_rng,
        "trainer/hyper_tuning.py:117",
        "hyperopt draws from a numpy Generator today, and RecBole gives it a RandomState",
    ),
    Hook(_COLLECTOR, "get_data_struct", compat.collect_values, "evaluator/collector.py:227", wraps=True),
    Hook(f"{_DATA}.dataset", "torch.distributed.barrier", compat.barrier, "data/dataset/dataset.py:252"),
]
HOOKS += [
    Hook("recbole.trainer", f"{name}Trainer", _trainer_of, "utils/utils.py:99", "RecBole finds a trainer by this name")
    for name in OUR_MODELS
]

_originals: dict[tuple[str, str], Any] = {}
"""What RecBole had where a change is made, by owner and name."""


def apply() -> None:
    """Make the changes that are not made yet; a second call makes those that waited for their module."""
    check_versions(recbole.__version__, pandas.__version__)
    for hook in HOOKS:
        if state_of(hook) == "to be made":
            _make(hook)


def state_of(hook: Hook) -> str:
    """Return whether a change is made, or what it waits for."""
    if (hook.owner, hook.name) in _originals:
        return "made"
    if hook.owner == _QUICK_START and _QUICK_START not in sys.modules:
        return "waits for recbole.quick_start"
    return "to be made"


def _make(hook: Hook) -> None:
    """Change an attribute of RecBole, also in its modules that imported the same function by name."""
    if hook.owner == "sys:modules":
        _originals[hook.owner, hook.name] = sys.modules[hook.name] = hook.value
        return
    module_name, _, class_name = hook.owner.partition(":")
    module, (name, *inner) = importlib.import_module(module_name), hook.name.split(".")
    owner = getattr(module, class_name) if class_name else module
    before = _originals[hook.owner, hook.name] = getattr(owner, name, None)
    changed = _around(before, hook.value) if hook.wraps else _inside(before, inner, hook.value)
    setattr(owner, name, changed)
    if isinstance(owner, ModuleType) and isinstance(before, FunctionType):
        for other in [module for name, module in [*sys.modules.items()] if name.partition(".")[0] == "recbole"]:
            for key in [key for key, value in vars(other).items() if value is before]:
                setattr(other, key, changed)


def _around(original: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with the original before its arguments, under the original's name."""

    @functools.wraps(original)
    def changed(*args: Any, **kwargs: Any) -> Any:
        return function(original, *args, **kwargs)

    return changed


def _inside(module: Any, names: list[str], value: object) -> object:
    """Return a stand-in for a module in which the attribute at a path of names is replaced."""
    if not names:
        return value
    return StandIn(module, **{names[0]: _inside(getattr(module, names[0]), names[1:], value)})


def check_versions(of_recbole: str, of_pandas: str) -> None:
    """Refuse another series of RecBole and pandas 3; warn of another release of the same series.

    RecBole fills missing values with ``frame[field].fillna(..., inplace=True)`` (dataset.py:644), which changes nothing
    from pandas 3 on: ratings stay NaN, and ids become -2^63.
    """
    message = f"recbole_bert4rec was made for RecBole {SUPPORTED_RECBOLE}, but {of_recbole} is installed"
    if of_recbole.split(".")[:2] != SUPPORTED_RECBOLE.split(".")[:2]:
        raise ImportError(f"{message}; {INSTALL_RECBOLE}")
    if of_recbole != SUPPORTED_RECBOLE:
        warnings.warn(f"{message}; it may not work", stacklevel=3)
    if int(of_pandas.split(".")[0]) >= 3:
        raise ImportError(
            f"pandas {of_pandas} is installed, with which RecBole {SUPPORTED_RECBOLE} silently loses missing values; "
            "pip install 'pandas<3'"
        )


@contextmanager
def in_program() -> Iterator[None]:
    """Run one of this package's programs or functions inside the block."""
    refuse_unguarded()
    with torch.autograd.set_detect_anomaly(False):  # importing RecBole turns it on: 2.5 times slower (sine.py:25)
        yield
