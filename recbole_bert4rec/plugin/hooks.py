"""All that importing this package changes in RecBole: the list ``HOOKS``, each with its reason.

After it RecBole finds our models, data set, trainer, loaders and defaults by their names, and what ends in an exception
with today's libraries works. No other model changes. ``python -m recbole_bert4rec doctor`` prints the list.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from logging import getLogger
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas
import recbole
import recbole.data.dataset
import recbole.trainer
import torch
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset

from recbole_bert4rec.options.user_models import SHIPPED, is_ours, known_as, models_of_others
from recbole_bert4rec.plugin import compat, model
from recbole_bert4rec.plugin.baselines import UserRowsDataLoader
from recbole_bert4rec.plugin.build import make_dataset
from recbole_bert4rec.plugin.candidates import CandidateDataLoader, create_samplers
from recbole_bert4rec.plugin.config import PluginConfig, check_options, is_of_this_package, lay_defaults
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.system.constants import (
    FOR_THE_USER,
    INSTALL_RECBOLE,
    MODEL_NAME,
    OUR_MODELS,
    STOCK_MODEL_NAME,
    SUPPORTED_RECBOLE,
)
from recbole_bert4rec.system.processes import refuse_unguarded
from recbole_bert4rec.system.scoped import StandIn

_MODELS = "recbole.model.sequential_recommender"
_QUICK_START = "recbole.quick_start.quick_start"
"""It imports Ray, so its hooks wait until somebody imports it."""
# its module keeps a global `BERT4Rec` of its own: `super(BERT4Rec, self)` in there needs it
stock = importlib.import_module(f"{_MODELS}.{MODEL_NAME.lower()}")
RecBoleBERT4Rec = type(STOCK_MODEL_NAME, (stock.BERT4Rec,), {"__module__": f"{_MODELS}.{STOCK_MODEL_NAME.lower()}"})


class Hook(NamedTuple):
    """One change of RecBole.

    Attributes:
        owner: a module, or ``module:Class``; ``sys:modules`` for the table of modules.
        name: the attribute that changes, or the key of the table.
        change: returns the new value for RecBole's own.
        reason: one sentence.
        line: RecBole's file and line.
        fault: text in RecBole's file that needs the change; where it is not there, a later RecBole has mended it.
    """

    owner: str
    name: str
    change: Callable[[Any], Any]
    reason: str
    line: str
    fault: str = ""

    def is_needed(self) -> bool:
        """Tell whether the installed RecBole has the fault."""
        return not self.fault or self.fault in inspect.getsource(importlib.import_module(self.module))

    @property
    def module(self) -> str:
        """The module that changes."""
        return self.owner.partition(":")[0]


def around(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a change that has ``function(original, ...)`` called, under the original's name."""

    def change(original: Any) -> Any:
        @functools.wraps(original)
        def changed(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        return changed

    return change


def put(value: object) -> Callable[[Any], Any]:
    """Return a change that puts another value there."""
    return lambda original: value


def load_defaults(original: Callable[..., None], self: Config, name: str, model_class: type, dataset: str) -> None:
    """Lay the defaults of our models, and in our programs of all, over RecBole's, below the user's options."""
    is_of_program = isinstance(self, PluginConfig)
    if not is_of_program and not is_of_this_package(self):
        original(self, MODEL_NAME if model_class is RecBoleBERT4Rec else name, model_class, dataset)
        return
    lay_defaults(self, functools.partial(original, self), model_class, dataset)
    if not is_of_program and name not in (*OUR_MODELS, *SHIPPED):
        _make_findable(model_class)


def set_default_parameters(original: Callable[[Config], None], self: Config) -> None:
    """Check the options of our models, and in our programs of all, before RecBole looks at them."""
    if isinstance(self, PluginConfig) or is_of_this_package(self):
        check_options(self)
    original(self)


def get_dataloader(
    original: Callable[[Config, str], type[AbstractDataLoader]], config: Config, phase: str
) -> type[AbstractDataLoader]:
    """Return the class of our models' loader."""
    if not is_of_this_package(config):
        return original(config, phase)
    windows = WindowDataLoader if is_ours(config.model_class) else UserRowsDataLoader
    if phase == "train":
        return windows
    full = config["eval_args"]["mode"][phase] == "full"
    return original(config, phase) if full or windows is UserRowsDataLoader else CandidateDataLoader


def our_samplers(original: Callable[..., Any], config: Config, dataset: Dataset, built_datasets: list[Dataset]) -> Any:
    """Make the samplers of our models, which know ``candidates: paper``."""
    make = functools.partial(create_samplers, original) if is_of_this_package(config) else original
    return make(config, dataset, built_datasets)


def run_recboles(rank: int, *args: object) -> None:
    """Run RecBole's worker of ``nproc > 1``; its name in a pickle makes the new process register our models too."""
    importlib.import_module(_QUICK_START)
    _recboles[_QUICK_START, "run_recboles"](rank, *args)


def objective_function(
    config_dict: dict[str, Any] | None = None, config_file_list: list[str] | None = None, saved: bool = True
) -> dict[str, Any]:
    """Run HyperTuning's objective; its name in a pickle makes Ray's workers register our models too."""
    importlib.import_module(_QUICK_START)
    result: dict[str, Any] = _recboles[_QUICK_START, "objective_function"](config_dict, config_file_list, saved)
    return result


def _make_findable(model_class: type) -> None:
    """Let RecBole find a subclass of ours by its name, and warn if it would find another model instead."""
    name = known_as(model_class)
    data_set_is_known = hasattr(recbole.data.dataset, f"{name}Dataset")
    module = ModuleType(f"{_MODELS}.{name.lower()}")
    if name not in models_of_others():
        if getattr(sys.modules.get(module.__name__), name, None) is not model_class:
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


def _model(name: str, module: ModuleType, model_class: type, reason: str) -> tuple[Hook, ...]:
    """Put a model where RecBole looks for it."""
    line = "utils/utils.py:72"
    return (
        Hook("sys:modules", f"{_MODELS}.{name.lower()}", put(module), reason, line),
        Hook(_MODELS, name.lower(), put(module), reason, line),
        Hook(_MODELS, name, put(model_class), reason, line),
    )


def _ours(name: str, home: str) -> tuple[Hook, ...]:
    """Put a model of ours, and its data set, where RecBole looks for them."""
    module = importlib.import_module(home)
    reason = "RecBole finds this model, which is ours, in a module of its lower-case name"
    of_data = "RecBole finds a model's data set by this name"
    return (
        *_model(name, module, getattr(module, name), reason),
        Hook("recbole.data.dataset", f"{name}Dataset", put(make_dataset), of_data, "data/utils.py:42"),
    )


_CONFIG = "recbole.config.configurator:Config"
_TRAVELS = "other processes look this function up by its module, which registers our models there"
_PICKLE = "torch reads no pickle of RecBole's any more: those are read that this process itself wrote"
_LOAD = "torch.load(checkpoint_file, map_location=self.device)"
_STOCK = "RecBole's own BERT4Rec stays there under another name"
HOOKS = [
    Hook(stock.__name__, STOCK_MODEL_NAME, put(RecBoleBERT4Rec), _STOCK, "utils/utils.py:72"),
    *_model(STOCK_MODEL_NAME, stock, RecBoleBERT4Rec, _STOCK),
    *(hook for name in OUR_MODELS for hook in _ours(name, model.__name__)),
    *(hook for name, home in SHIPPED.items() for hook in _ours(name, home)),
    Hook(
        _CONFIG,
        "_load_internal_config_dict",
        around(load_defaults),
        "RecBole reads a model's defaults from its own folder: ours are laid over them",
        "config/configurator.py:242",
    ),
    Hook(
        _CONFIG,
        "_set_default_parameters",
        around(set_default_parameters),
        "RecBole checks no option of a model: those of ours are checked",
        "config/configurator.py:327",
    ),
    Hook(
        "recbole.data.utils",
        "get_dataloader",
        around(get_dataloader),
        "RecBole has a fixed table of loaders: our models have their own",
        "data/utils.py:241",
    ),
    Hook(
        "recbole.data.utils",
        "create_samplers",
        around(our_samplers),
        "RecBole has a fixed set of samplers: our models know the paper's candidates",
        "data/utils.py:333",
    ),
    Hook(_QUICK_START, "run_recboles", put(run_recboles), _TRAVELS, "quick_start/quick_start.py:84"),
    Hook(_QUICK_START, "objective_function", put(objective_function), _TRAVELS, "quick_start/quick_start.py:196"),
    Hook(
        _QUICK_START,
        "load_data_and_model",
        put(compat.load_data_and_model),
        "checkpoints of ours hold plain values; of RecBole's pickles those are read that this process wrote",
        "quick_start/quick_start.py:250",
    ),
    Hook(
        _QUICK_START,
        "tune",
        put(SimpleNamespace(report=compat.report)),
        "Ray takes a dictionary today, and RecBole reports to it where no trial runs",
        "quick_start/quick_start.py:223",
        "tune.report(**test_result)",
    ),
    Hook(
        "recbole.trainer.trainer",
        "torch",
        put(StandIn(torch, load=compat.load_checkpoint)),
        _PICKLE,
        "trainer/trainer.py:583",
        _LOAD,
    ),
    Hook(
        "recbole.trainer.trainer:Trainer",
        "_save_checkpoint",
        around(compat.save_and_remember),
        _PICKLE,
        "trainer/trainer.py:308",
        _LOAD,
    ),
    Hook(
        _CONFIG,
        "compatibility_settings",
        around(compat.compatibility_settings),
        "numpy 2 has no `float_`, so no configuration can be made",
        "config/configurator.py:630",
        "np.float = np.float_",
    ),
    Hook(
        "recbole.trainer.hyper_tuning",
        "np",
        put(StandIn(np, random=StandIn(np.random, RandomState=np.random.default_rng))),
        "hyperopt draws from a numpy Generator today, and RecBole gives it a RandomState",
        "trainer/hyper_tuning.py:117",
        "np.random.RandomState(seed)",
    ),
    Hook(
        "recbole.evaluator.collector:Collector",
        "get_data_struct",
        around(compat.collect_plain_values),
        "RecBole moves everything to the processor, also the whole numbers that ItemCoverage needs",
        "evaluator/collector.py:227",
        "self.data_struct._data_dict[key].cpu()",
    ),
    Hook(
        "recbole.data.dataset.dataset",
        "torch",
        put(StandIn(torch, distributed=StandIn(torch.distributed, barrier=compat.barrier))),
        "a download ends in `torch.distributed.barrier()`, which raises in a single process",
        "data/dataset/dataset.py:252",
        "torch.distributed.barrier()",
    ),
]
"""The trainers of our models, which leave a record, join it in training/recording.py."""

_recboles: dict[tuple[str, str], Any] = {}
"""What RecBole had in each place where a change is made."""


def apply() -> None:
    """Make the changes that are needed and not made yet; a second call adds those that waited for their module."""
    check_recbole_version(recbole.__version__)
    check_pandas_version(pandas.__version__)
    for hook in HOOKS:
        if state_of(hook) == "to be made":
            _make(hook)


def state_of(hook: Hook) -> str:
    """Return whether a change is made, and why not."""
    if (hook.owner, hook.name) in _recboles:
        return "made"
    if hook.module == _QUICK_START and _QUICK_START not in sys.modules:
        return "waits for recbole.quick_start"
    return "to be made" if hook.is_needed() else "not needed"


def _make(hook: Hook) -> None:
    """Change an attribute of RecBole, also in its modules that imported the same function by name."""
    module, name = importlib.import_module(hook.module), hook.owner.partition(":")[2]
    owner = getattr(module, name) if name else module
    if owner is sys.modules:
        _recboles[hook.owner, hook.name] = sys.modules[hook.name] = hook.change(None)
        return
    before = _recboles[hook.owner, hook.name] = getattr(owner, hook.name, None)
    changed = hook.change(before)
    setattr(owner, hook.name, changed)
    if isinstance(owner, ModuleType) and isinstance(before, FunctionType):
        for other in [module for name, module in [*sys.modules.items()] if name.partition(".")[0] == "recbole"]:
            for name in [name for name, value in vars(other).items() if value is before]:
                setattr(other, name, changed)


def check_recbole_version(version: str) -> None:
    """Refuse another series of RecBole, and warn of another release of the same."""
    if version == SUPPORTED_RECBOLE:
        return
    message = f"recbole_bert4rec was made for RecBole {SUPPORTED_RECBOLE}, but {version} is installed"
    if version.split(".")[:2] != SUPPORTED_RECBOLE.split(".")[:2]:
        raise ImportError(f"{message}; {INSTALL_RECBOLE}")
    warnings.warn(f"{message}; it may not work", stacklevel=3)


def check_pandas_version(version: str) -> None:
    """Refuse a pandas with which RecBole computes something else, and says nothing.

    RecBole fills missing values with ``frame[field].fillna(..., inplace=True)`` (dataset.py:644), which changes nothing
    from pandas 3 on: ratings stay NaN, and ids become -2^63.
    """
    if int(version.split(".")[0]) >= 3:
        raise ImportError(
            f"pandas {version} is installed, with which RecBole {SUPPORTED_RECBOLE} silently loses missing values; "
            "pip install 'pandas<3'"
        )


@contextmanager
def in_program() -> Iterator[None]:
    """Run one of this package's programs or functions inside the block."""
    refuse_unguarded()
    with torch.autograd.set_detect_anomaly(False):  # importing RecBole turns it on: 2.5 times slower (sine.py:25)
        yield
