"""Puts BERT4Rec where RecBole looks models, trainers, datasets and defaults up (all by name, at call time)."""

from __future__ import annotations

import importlib
import importlib.resources
import sys
import warnings
from collections.abc import Callable
from logging import getLogger
from typing import TYPE_CHECKING, Any

import recbole
import recbole.data.dataset
import recbole.data.utils
import recbole.model.sequential_recommender as sequential_models
import recbole.quick_start
import recbole.quick_start.quick_start as quick_start
import recbole.trainer
import yaml
from recbole.config import Config
from recbole.utils import ModelType, dataset_arguments, init_logger, init_seed

from recbole_bert4rec.constants import MODEL_NAME, STOCK_MODEL_NAME, SUPPORTED_RECBOLE
from recbole_bert4rec.datafiles.atomic import load_packed
from recbole_bert4rec.environment import suppress_dependency_warnings
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.options.checks import check
from recbole_bert4rec.options.known import known_to_every_model, mistakes_of_names
from recbole_bert4rec.options.table import OPTIONS, OWN, SHAPES_DATA
from recbole_bert4rec.patches import fixes as compat
from recbole_bert4rec.patches.fixes import wrap
from recbole_bert4rec.plugin import checkpoint, model
from recbole_bert4rec.plugin.candidates import CandidateDataLoader, create_samplers
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loader import ClozeDataLoader
from recbole_bert4rec.plugin.trainer import BERT4RecTrainer
from recbole_bert4rec.resources import read_yaml, shipped

if TYPE_CHECKING:
    from importlib.abc import Traversable

_run_recboles, _objective_function = quick_start.run_recboles, quick_start.objective_function
_SEQUENTIAL_SPLIT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user"}


def register() -> None:
    """Make RecBole use this package for ``BERT4Rec``; its own stays as ``RecBoleBERT4Rec``. May be called again.

    Raises:
        ImportError: RecBole is not of the 1.2 series.
    """
    _check_recbole_version(recbole.__version__)
    compat.apply()
    _register_models()
    recbole.trainer.BERT4RecTrainer = BERT4RecTrainer  # type: ignore[attr-defined]
    recbole.data.dataset.BERT4RecDataset = BERT4RecDataset  # type: ignore[attr-defined]
    wrap(recbole.data.utils, "get_dataloader", _get_dataloader)
    wrap(recbole.data.utils, "create_samplers", create_samplers)
    wrap(recbole.data.dataset.Dataset, "_load_inter_feat", load_packed)
    wrap(Config, "_load_config_files", _load_config_files)
    wrap(Config, "_load_internal_config_dict", _load_internal_config_dict)
    wrap(Config, "_set_default_parameters", _set_default_parameters)
    wrap(quick_start, "load_data_and_model", _load_data_and_model)
    dataset_arguments.extend(name for name in SHAPES_DATA if name not in dataset_arguments)
    quick_start.run_recboles = run_recboles
    quick_start.objective_function = objective_function
    for name in ("load_data_and_model", "objective_function"):  # the package holds second references
        setattr(recbole.quick_start, name, getattr(quick_start, name))


def run_recboles(rank: int, *args: Any) -> None:
    """RecBole's worker of ``nproc > 1``: pickled by this name, so that the new process registers BERT4Rec too."""
    suppress_dependency_warnings()
    _run_recboles(rank, *args)


def objective_function(
    config_dict: dict[str, Any] | None = None, config_file_list: list[str] | None = None, saved: bool = True
) -> dict[str, Any]:
    """RecBole's HyperTuning objective: pickled by this name, so that Ray's workers register BERT4Rec too."""
    return _objective_function(config_dict, config_file_list, saved)


def _check_recbole_version(version: str) -> None:
    if version == SUPPORTED_RECBOLE:
        return
    message = f"recbole_bert4rec was made for RecBole {SUPPORTED_RECBOLE}, but {version} is installed"
    if version.split(".")[:2] != SUPPORTED_RECBOLE.split(".")[:2]:
        raise ImportError(f"{message}; pip install recbole=={SUPPORTED_RECBOLE}")
    warnings.warn(f"{message}; it may not work", stacklevel=3)


def _register_models() -> None:
    """RecBole finds a class in the module of its lower-case name: ours takes the stock model's, which moves on.

    The stock module keeps its own global ``BERT4Rec``: its ``super(BERT4Rec, self)`` needs it.
    """
    home = "recbole.model.sequential_recommender"
    stock = importlib.import_module(f"{home}.bert4rec")
    if stock is model:
        return
    renamed = type(STOCK_MODEL_NAME, (stock.BERT4Rec,), {"__module__": f"{home}.{STOCK_MODEL_NAME.lower()}"})
    setattr(stock, STOCK_MODEL_NAME, renamed)
    for name, module in ((MODEL_NAME, model), (STOCK_MODEL_NAME, stock)):
        sys.modules[f"{home}.{name.lower()}"] = module
        setattr(sequential_models, name.lower(), module)
        setattr(sequential_models, name, getattr(module, name))


def _get_dataloader(original: Any, config: Config, phase: str) -> Any:
    if config["model"] != MODEL_NAME:
        return original(config, phase)
    if phase == "train":
        return ClozeDataLoader
    return original(config, phase) if config["eval_args"]["mode"][phase] == "full" else CandidateDataLoader


def _load_config_files(original: Any, self: Config, file_list: list[str] | None) -> Any:
    for path in file_list or []:
        read_yaml(path)
    return original(self, file_list)


def _load_internal_config_dict(original: Any, self: Config, name: str, model_class: Any, dataset: str) -> None:
    """Lay our defaults over RecBole's; what the user gives still comes after both."""
    original(self, MODEL_NAME if name == STOCK_MODEL_NAME else name, model_class, dataset)
    internal = self.internal_config_dict
    if name == MODEL_NAME:
        _overlay(self, shipped("model") / f"{name}.yaml")
    _overlay(self, shipped("dataset") / f"{dataset}.yaml")
    if name == "Pop":
        internal["train_neg_sample_args"] = None  # it would count sampled negatives as interactions
    if model_class.type != ModelType.SEQUENTIAL:
        return
    given = self.external_config_dict
    if given.get("loss_type", internal.get("loss_type")) == "CE":
        internal["train_neg_sample_args"] = None  # RecBole refuses its own default with CE
    if internal["load_col"] == {"inter": ["user_id", "item_id"]}:  # sample.yaml's, without the time
        fields = ("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD")
        internal["load_col"] = {"inter": [given.get(field, internal[field]) for field in fields]}


def _overlay(config: Config, file: Traversable) -> None:
    if file.is_file():
        config.internal_config_dict.update(yaml.load(file.read_text("utf-8"), Loader=config.yaml_loader))  # noqa: S506


def _set_default_parameters(original: Any, self: Config) -> None:
    """Complete a sequential model's split and check BERT4Rec's options before RecBole works with them."""
    arguments = self.final_config_dict["eval_args"]
    if self.final_config_dict["MODEL_TYPE"] == ModelType.SEQUENTIAL and isinstance(arguments, dict):
        # RecBole fills gaps with a random split, which no sequential model takes
        self.final_config_dict["eval_args"] = {**_SEQUENTIAL_SPLIT, **arguments}
    given = set(self.external_config_dict)
    known = {*self.internal_config_dict}.union(*self.parameters.values())
    if self.model == MODEL_NAME:
        check(self.final_config_dict, given, known)
    elif self.model_class.__module__.startswith("recbole.") and (found := mistakes_of_names(given, known)):
        raise UserError(f"the configuration of {self.model} has mistakes:\n  " + "\n  ".join(found))
    if self.model_class.__module__.startswith("recbole"):  # a model of the user's own may have options of its own
        _warn_of_what_has_no_effect(self.model, given, known)
    original(self)


def _warn_of_what_has_no_effect(model: str, given: set[str], known: set[str]) -> None:
    """Name the options that other models have and this one has not."""
    for name in sorted(given):
        if name in OWN and model != MODEL_NAME:
            getLogger().warning(f"option `{name}` is BERT4Rec's and has no effect on {model}")
        elif name not in known and name not in OPTIONS and name not in known_to_every_model():
            getLogger().warning(f"option `{name}` is another model's and has no effect on {model}")


def _load_data_and_model(original: Callable[[str], tuple[Any, ...]], model_file: str) -> tuple[Any, ...]:
    """RecBole's load_data_and_model, reading our own format without unpickling."""
    state = checkpoint.read_if_ours(model_file)
    if state is None:
        return original(model_file)
    config = checkpoint.StoredConfig(state["config"])
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    getLogger().info(config)
    dataset = recbole.data.utils.create_dataset(config)
    getLogger().info(dataset)
    loaders = recbole.data.utils.data_preparation(config, dataset)
    init_seed(config["seed"], config["reproducibility"])
    net = model.BERT4Rec(config, loaders[0]._dataset).to(config["device"])
    net.load_state_dict(state["state_dict"])
    return (config, net, dataset, *loaders)
