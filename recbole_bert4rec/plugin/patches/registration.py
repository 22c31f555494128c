"""Let RecBole find our models, data set, trainer and loaders after a plain import; no other model changes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial, wraps
from importlib.machinery import ModuleSpec
from logging import getLogger
from types import ModuleType
from typing import Any

import recbole.data.dataset
import recbole.trainer
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset, SequentialDataset

from recbole_bert4rec.options.user_models import SHIPPED, is_ours, known_as, models_of_others, source_of
from recbole_bert4rec.plugin import model
from recbole_bert4rec.plugin.baselines import UserRowsDataLoader, has_user_rows
from recbole_bert4rec.plugin.candidates import CandidateDataLoader, create_samplers
from recbole_bert4rec.plugin.configuring import check_options, lay_defaults, load_times, no_negatives_with_softmax
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.plugin.mapped import MappedDataset, reads_mapped
from recbole_bert4rec.plugin.patches.patch import Patch, Scope
from recbole_bert4rec.plugin.patches.places import QUICK_START, hold
from recbole_bert4rec.plugin.patches.places import original as recboles_own
from recbole_bert4rec.system.constants import FOR_THE_USER, MODEL_NAME, OUR_MODELS, STOCK_MODEL_NAME
from recbole_bert4rec.system.errors import UserError

_HOME = "recbole.model.sequential_recommender"
_STOCK = STOCK_MODEL_NAME.lower()
# its module keeps a global `BERT4Rec` of its own: `super(BERT4Rec, self)` in there needs it
stock = importlib.import_module(f"{_HOME}.{MODEL_NAME.lower()}")
RecBoleBERT4Rec = type(STOCK_MODEL_NAME, (stock.BERT4Rec,), {"__module__": f"{_HOME}.{_STOCK}"})


def is_of_this_package(config: Config) -> bool:
    """Tell whether a configuration is of a model of this package or of a subclass, by its class."""
    return is_ours(config.model_class) or source_of(config.model_class) in SHIPPED


def load_defaults(original: Callable[..., None], self: Config, name: str, model_class: type, dataset: str) -> None:
    """Lay our models' defaults over RecBole's, below the user's options."""
    if not is_of_this_package(self):
        return original(self, MODEL_NAME if model_class is RecBoleBERT4Rec else name, model_class, dataset)
    lay_defaults(original, self, name, model_class, dataset)
    no_negatives_with_softmax(self)
    load_times(self)
    if name not in (*OUR_MODELS, *SHIPPED):
        _make_findable(model_class)
    return None


def set_default_parameters(original: Callable[[Config], None], self: Config) -> None:
    """Check our models' options before RecBole looks at them."""
    if is_of_this_package(self):
        check_options(self)
    original(self)


@wraps(BERT4RecDataset, updated=())  # RecBole's file of a saved data set has the name of the class
def make_dataset(config: Config) -> Dataset:
    """Make the data set that a configuration needs: RecBole's, for a class that only has the name of one of ours."""
    if isinstance(config, dict):
        raise UserError(
            "load_data_and_model was imported from RecBole before recbole_bert4rec, so it takes the checkpoint for "
            "one of RecBole; import it after recbole_bert4rec"
        )
    if is_ours(config.model_class):
        return MappedDataset(config) if reads_mapped(config) else BERT4RecDataset(config)
    return BERT4RecDataset(config) if has_user_rows(config) else SequentialDataset(config)


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
    if not is_of_this_package(config):
        return original(config, dataset, built_datasets)
    return create_samplers(original, config, dataset, built_datasets)


def run_recboles(rank: int, *args: object) -> None:
    """Run RecBole's worker of ``nproc > 1``; its name in a pickle makes the new process register our models too."""
    recboles_own(QUICK_START, "run_recboles")(rank, *args)


def objective_function(
    config_dict: dict[str, Any] | None = None, config_file_list: list[str] | None = None, saved: bool = True
) -> dict[str, Any]:
    """Run HyperTuning's objective; its name in a pickle makes Ray's workers register our models too."""
    result: dict[str, Any] = recboles_own(QUICK_START, "objective_function")(config_dict, config_file_list, saved)
    return result


def _make_findable(model_class: type) -> None:
    """Let RecBole find a subclass of ours by its name, and warn if it would find another model instead."""
    name = known_as(model_class)
    if vars(recbole.data.dataset).get(f"{name}Dataset") is not None and _class_named(name) in (None, model_class):
        return
    rows = [_data_set(name), named_trainer(name, vars(recbole.trainer)[f"{MODEL_NAME}Trainer"])]
    if name in models_of_others():
        getLogger(FOR_THE_USER).warning(
            f"{model_class.__module__}.{name} has the name of a model of RecBole, which its run_recbole looks up by "
            "that name and takes instead; recbole_bert4rec.run takes the class"
        )
    else:
        module = ModuleType(f"{_HOME}.{name.lower()}")
        module.__spec__ = ModuleSpec(module.__name__, None)
        vars(module)[name] = model_class
        rows += _model(name, module)
    hold(rows)


def _class_named(name: str) -> type | None:
    """Return the user's own class that RecBole finds by a name."""
    if name in models_of_others():
        return None
    model_class: type = vars(sys.modules[f"{_HOME}.{name.lower()}"])[name]
    return model_class


_row = partial(Patch, scope=Scope.REGISTRATION)
_named = partial(_row, as_is=True)
_OUR_MODEL = "RecBole finds a model in the module of its lower-case name (utils.py:72): this package's."
_STOCK_MODEL = "RecBole's own BERT4Rec stays runnable under another name, as a baseline (utils.py:72)."
_WORKER = "Other processes look the function up by its module, which registers our models there"


def _model(name: str, module: ModuleType) -> tuple[Patch, ...]:
    """Put a model where RecBole looks for it."""
    return (
        _named("sys:modules", f"{_HOME}.{name.lower()}", module, _OUR_MODEL),
        _named(_HOME, name.lower(), module, _OUR_MODEL),
        _named(_HOME, name, getattr(module, name), _OUR_MODEL),
    )


def _data_set(name: str) -> Patch:
    reason = "RecBole finds a model's data set by this name (data/utils.py:42)."
    return _named("recbole.data.dataset", f"{name}Dataset", make_dataset, reason)


def named_trainer(name: str, trainer_class: type) -> Patch:
    """Let RecBole find the trainer of a model."""
    return _named(
        "recbole.trainer",
        f"{name}Trainer",
        trainer_class,
        "RecBole finds a model's trainer by this name (utils.py:99).",
    )


PATCHES = (
    _named("sys:modules", f"{_HOME}.{_STOCK}", stock, _STOCK_MODEL),
    _named(f"{_HOME}.{_STOCK}", STOCK_MODEL_NAME, RecBoleBERT4Rec, _STOCK_MODEL),
    _named(_HOME, _STOCK, stock, _STOCK_MODEL),
    _named(_HOME, STOCK_MODEL_NAME, RecBoleBERT4Rec, _STOCK_MODEL),
    *(row for name in OUR_MODELS for row in (*_model(name, model), _data_set(name))),
    *(row for name, home in SHIPPED.items() for row in (*_model(name, importlib.import_module(home)), _data_set(name))),
    _row(
        "recbole.config.configurator:Config",
        "_load_internal_config_dict",
        load_defaults,
        "RecBole reads a model's defaults from its own folder (configurator.py:242).",
    ),
    _row(
        "recbole.config.configurator:Config",
        "_set_default_parameters",
        set_default_parameters,
        "RecBole checks no option of a model (configurator.py:327).",
    ),
    _row(
        "recbole.data.utils",
        "get_dataloader",
        get_dataloader,
        "RecBole has a fixed table of loaders (data/utils.py:241).",
    ),
    _row(
        "recbole.data.utils",
        "create_samplers",
        our_samplers,
        "RecBole has a fixed set of samplers (data/utils.py:333).",
    ),
    _named(QUICK_START, "run_recboles", run_recboles, f"{_WORKER} (quick_start.py:84)."),
    _named(QUICK_START, "objective_function", objective_function, f"{_WORKER} (quick_start.py:196)."),
)
