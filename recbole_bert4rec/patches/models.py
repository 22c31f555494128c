"""BERT4Rec where RecBole looks models, trainers, datasets and loaders up: all by name, as they are asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import Trainer
from recbole.utils import ModelType

from recbole_bert4rec.constants import MODEL_NAME, OUR_MODELS, RIVAL, STOCK_MODEL_NAME
from recbole_bert4rec.environment import suppress_dependency_warnings
from recbole_bert4rec.patches.quick_start import quick_start
from recbole_bert4rec.patches.registry import Patch, Scope
from recbole_bert4rec.plugin import gru4rec_plus, model
from recbole_bert4rec.plugin.candidates import CandidateDataLoader
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loader import WindowDataLoader
from recbole_bert4rec.plugin.stored_config import StoredConfig
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.plugin.user_rows import UserRowsDataLoader, has_user_rows
from recbole_bert4rec.scoped import replaced
from recbole_bert4rec.user_models import class_of, is_ours, known_as, named_in_file, parent_of

if TYPE_CHECKING:
    from recbole.model.abstract_recommender import ConcreteRecommender  # a name of the stubs

_HOME = "recbole.model.sequential_recommender"
_STOCK = STOCK_MODEL_NAME.lower()
_run_recboles, _objective_function = quick_start.run_recboles, quick_start.objective_function
# its module keeps a global `BERT4Rec` of its own: `super(BERT4Rec, self)` in there needs it
stock = importlib.import_module(f"{_HOME}.{MODEL_NAME.lower()}")
RecBoleBERT4Rec = type(STOCK_MODEL_NAME, (stock.BERT4Rec,), {"__module__": f"{_HOME}.{_STOCK}"})


def get_dataloader(
    original: Callable[[Config, str], type[AbstractDataLoader]], config: Config, phase: str
) -> type[AbstractDataLoader]:
    """Return the loader's class: this package's for BERT4Rec, RecBole's for all other models."""
    if phase == "train" and has_user_rows(config):
        return UserRowsDataLoader
    if not is_ours(config["model"]):
        parent: Any = {**config.final_config_dict, "model": parent_of(config["model"])}  # RecBole only looks options up
        return original(parent, phase)
    if phase == "train":
        return WindowDataLoader
    return original(config, phase) if config["eval_args"]["mode"][phase] == "full" else CandidateDataLoader


def get_model(original: Callable[[str], type[ConcreteRecommender]], model_name: str) -> type[ConcreteRecommender]:
    """Return the class of a model; one of the user's own by its name."""
    return class_of(model_name) or original(model_name)


def get_trainer(
    original: Callable[[ModelType, str], type[Trainer]], model_type: ModelType, model_name: str
) -> type[Trainer]:
    """Return the trainer of a model; a user's own has that of the model that it comes from."""
    return original(model_type, parent_of(model_name))


def get_model_and_dataset(
    original: Callable[..., tuple[str, type[ConcreteRecommender], str]],
    self: Config,
    model: str | type[ConcreteRecommender] | None,
    dataset: str | None,
) -> tuple[str, type[ConcreteRecommender], str]:
    """Let a model be a class, or ``module:Class`` where the user says so; what a file says imports nothing.

    Raises:
        UserError: it is no model, or a file names one that the user has not named.
    """
    said = {**self.variable_config_dict, **self.cmd_config_dict}.get("model") if model is None else model
    if said is None and "model" in self.file_config_dict:
        said = named_in_file(str(self.file_config_dict["model"]), "a configuration file")
    elif isinstance(self, StoredConfig):
        said = named_in_file(str(said), "the checkpoint")
    elif said is not None:
        said = known_as(said)
    return original(self, said, dataset)


def run_recboles(rank: int, *args: object) -> None:
    """Run RecBole's worker of ``nproc > 1``; its name in a pickle makes the new process register BERT4Rec too."""
    suppress_dependency_warnings()
    _run_recboles(rank, *args)


def objective_function(
    config_dict: dict[str, Any] | None = None, config_file_list: list[str] | None = None, saved: bool = True
) -> dict[str, Any]:
    """Run HyperTuning's objective; its name in a pickle makes Ray's workers register BERT4Rec too.

    RecBole's Config would take the flags that Ray gives its workers for options.
    """
    in_ray = Path(sys.argv[0]).name == "default_worker.py"
    with replaced(sys, "argv", sys.argv[:1] if in_ray else sys.argv):
        return _objective_function(config_dict, config_file_list, saved)


def _named(owner: str, name: str, value: object, reason: str) -> Patch:
    return Patch(owner, name, value, reason, Scope.MODEL, as_is=True)


_OUR_MODEL = "RecBole finds a model in the module of its lower-case name (utils.py:72): this package's."
_STOCK_MODEL = "RecBole's own BERT4Rec stays runnable under another name, as a baseline (utils.py:72)."
_TRAINER = "RecBole finds a model's trainer by this name (utils.py:99)."
_DATA_SET = "RecBole finds a model's data set by this name (data/utils.py:42)."
_WORKER = "Other processes look the function up by its module, which registers BERT4Rec there"


def _model(name: str, module: ModuleType) -> tuple[Patch, ...]:
    """Put a model of this package where RecBole looks for it and its data set."""
    return (
        _named("sys:modules", f"{_HOME}.{name.lower()}", module, _OUR_MODEL),
        _named(_HOME, name.lower(), module, _OUR_MODEL),
        _named(_HOME, name, getattr(module, name), _OUR_MODEL),
        _named("recbole.data.dataset", f"{name}Dataset", BERT4RecDataset, _DATA_SET),
    )


PATCHES = (
    _named("sys:modules", f"{_HOME}.{_STOCK}", stock, _STOCK_MODEL),
    _named(f"{_HOME}.{_STOCK}", STOCK_MODEL_NAME, RecBoleBERT4Rec, _STOCK_MODEL),
    _named(_HOME, _STOCK, stock, _STOCK_MODEL),
    _named(_HOME, STOCK_MODEL_NAME, RecBoleBERT4Rec, _STOCK_MODEL),
    *(patch for name in OUR_MODELS for patch in _model(name, model)),
    *(_named("recbole.trainer", f"{name}Trainer", BERT4RecTrainer, _TRAINER) for name in OUR_MODELS),
    *_model(RIVAL, gru4rec_plus),
    Patch(
        "recbole.utils.utils",
        "get_model",
        get_model,
        "RecBole finds a model in its own packages alone (utils.py:55).",
        Scope.MODEL,
    ),
    Patch(
        "recbole.utils.utils",
        "get_trainer",
        get_trainer,
        "RecBole finds a trainer by the name of the model, which a subclass does not share (utils.py:88).",
        Scope.MODEL,
    ),
    Patch(
        "recbole.config.configurator:Config",
        "_get_model_and_dataset",
        get_model_and_dataset,
        "RecBole forgets a class that it is given and looks its name up, in its own packages (configurator.py:198).",
        Scope.MODEL,
    ),
    Patch(
        "recbole.data.utils",
        "get_dataloader",
        get_dataloader,
        "RecBole has a fixed table of loaders, without BERT4Rec's (data/utils.py:241).",
        Scope.MODEL,
    ),
    _named(
        "recbole.quick_start.quick_start",
        "run_recboles",
        run_recboles,
        f"{_WORKER} (quick_start.py:84).",
    ),
    _named(
        "recbole.quick_start.quick_start",
        "objective_function",
        objective_function,
        f"{_WORKER} (quick_start.py:196).",
    ),
)
