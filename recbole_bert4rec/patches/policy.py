"""What this package decides for all of RecBole's models: how options and files are read, and which pickles are not."""

from __future__ import annotations

import ast
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from logging import getLogger
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
import pandas as pd
import recbole.data.dataset
import recbole.data.dataset.dataset as recbole_dataset
import recbole.data.utils as recbole_data
import recbole.quick_start.quick_start as quick_start
import recbole.utils.logger as recbole_logger
import recbole.utils.utils as recbole_utils
import torch
import yaml
from recbole.config import Config
from recbole.trainer import Trainer
from recbole.utils import ModelType, init_seed

from recbole_bert4rec.constants import FOR_THE_USER, MODEL_NAME, OUR_MODELS, RIVAL, STOCK_MODEL_NAME
from recbole_bert4rec.datafiles.atomic import load_interactions
from recbole_bert4rec.datafiles.conversion import read_record
from recbole_bert4rec.datafiles.reader import keeping_ids
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.options.auto import LogSize, settle
from recbole_bert4rec.options.checks import check, mistakes_of_another_model
from recbole_bert4rec.options.flags import literal
from recbole_bert4rec.options.gru4rec_plus import mistakes_of_gru4rec_plus
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.options.recboles import documented_in
from recbole_bert4rec.options.table import SHAPES_DATA
from recbole_bert4rec.patches.fixes import TRUST
from recbole_bert4rec.patches.quick_start import reporting
from recbole_bert4rec.patches.registry import Patch, Scope
from recbole_bert4rec.plugin import checkpoint
from recbole_bert4rec.plugin.benchmark_rows import count_interactions
from recbole_bert4rec.plugin.candidates import create_samplers
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.effects import known_to, without_effect
from recbole_bert4rec.plugin.global_split import (
    asks_for_global_time,
    build_by_global_time,
    check_no_leak,
    splits_by_global_time,
)
from recbole_bert4rec.plugin.mapped import MappedDataset, reads_mapped
from recbole_bert4rec.plugin.once_a_user import score_candidates
from recbole_bert4rec.plugin.sealed import ForeignFileError
from recbole_bert4rec.plugin.stored_config import StoredConfig
from recbole_bert4rec.plugin.user_rows import CAUSAL_MODELS, has_user_rows, loss_of_windows
from recbole_bert4rec.resources import shipped
from recbole_bert4rec.scoped import StandIn, added, replaced
from recbole_bert4rec.user_models import is_ours, known_as, parent_of, property_files
from recbole_bert4rec.yaml_files import read_yaml

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from recbole.model.abstract_recommender import ConcreteRecommender  # a name of the stubs

_SEQUENTIAL_SPLIT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user"}
_LARGEST_LOG = 2**25
"""Bytes of a run's log file; of a longer log the last part stays, and the one before it as FILE.log.1."""
_HANDLERS: WeakSet[logging.Handler] = WeakSet()
"""Those that RecBole's ``init_logger`` made."""


class _LogFile(RotatingFileHandler):
    """A run's log file: of bounded size, and where it cannot be written the run goes on and says so once."""

    def __init__(self, path: str) -> None:
        super().__init__(path, maxBytes=_LARGEST_LOG, backupCount=1)
        self._said = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  logging's name
        """Warn of a full disk and the like; other faults are shown as logging's own handlers show them."""
        if isinstance(error := sys.exc_info()[1], OSError):
            self._warn(error)
        else:
            super().handleError(record)

    def close(self) -> None:
        """Close the file, also where its last lines cannot be written."""
        try:
            super().close()
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._said:
            self._said = True
            print(f"warning: {self.baseFilename} cannot be written: {error.strerror}", file=sys.stderr)


_NO_FILE_EXISTS = StandIn(os, path=StandIn(os.path, exists=lambda path: False))


def load_config_files(
    original: Callable[[Config, list[str] | None], dict[str, Any]], self: Config, file_list: list[str] | None
) -> dict[str, Any]:
    """Refuse a configuration file that is no dictionary of plain values, names a key twice, or trusts pickles."""
    for path in file_list or []:
        if "trust_pickles" in read_yaml(path):
            raise UserError(f"{path} sets `trust_pickles`; a file may come from elsewhere: say it on the command line")
    return original(self, file_list)


def convert_texts(original: Callable[..., Any], self: Config, config_dict: dict[str, Any]) -> dict[str, Any]:
    """Turn texts into the Python values that they spell; RecBole would run them as programs.

    Args:
        original: RecBole's ``Config._convert_config_dict``.
        self: the configuration.
        config_dict: options, changed in place.

    Returns:
        ``config_dict``.
    """
    for key, value in config_dict.items():
        if isinstance(value, str):
            config_dict[key] = literal(value)
    return config_dict


def load_defaults(
    original: Callable[..., None], self: Config, model: str, model_class: type[ConcreteRecommender], dataset: str
) -> None:
    """Lay this package's defaults over RecBole's; what the user gives still comes after both.

    Raises:
        UserError: the name of the data set is a path, which would be read, and written to, outside ``data_path``.
    """
    if Path(dataset).name != dataset or dataset == ".." or "\0" in dataset:
        raise UserError(f"the data set {dataset!r} is no name; put NAME.inter into DATA_PATH/NAME/ and name both")
    parent = parent_of(model)
    original(self, MODEL_NAME if parent == STOCK_MODEL_NAME else parent, model_class, dataset)
    internal = self.internal_config_dict
    _overlay(self, shipped("model") / f"{parent}.yaml")
    for file in property_files(model):
        internal.update(read_yaml(str(file)))
    _overlay(self, shipped("dataset") / f"{dataset}.yaml")
    given = self.external_config_dict
    sequential = model_class.type == ModelType.SEQUENTIAL
    if not sequential and not asks_for_global_time(given.get("eval_args")):
        return
    if is_ours(model) and given.get("loss_type") == "BPR":
        internal["seen_bias"] = False  # BPR cannot learn it
    if sequential and given.get("loss_type", internal.get("loss_type")) == "CE":
        internal["train_neg_sample_args"] = None  # RecBole refuses its own default with CE
    if internal["load_col"] == {"inter": ["user_id", "item_id"]}:  # sample.yaml's, without the time
        fields = ("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD")
        internal["load_col"] = {"inter": [given.get(field, internal[field]) for field in fields]}


def _overlay(config: Config, file: Traversable) -> None:
    if file.is_file():
        config.internal_config_dict.update(yaml.load(file.read_text("utf-8"), Loader=config.yaml_loader))  # noqa: S506


def check_options(original: Callable[[Config], None], self: Config) -> None:
    """Complete a sequential model's split, check BERT4Rec's options, and refuse names that mean nothing to anybody.

    Args:
        original: RecBole's ``Config._set_default_parameters``.
        self: the configuration.

    Raises:
        UserError: naming all mistakes.
    """
    arguments = self.final_config_dict["eval_args"]
    if self.final_config_dict["MODEL_TYPE"] == ModelType.SEQUENTIAL and isinstance(arguments, dict):
        # RecBole fills gaps with a random split, which no sequential model takes
        self.final_config_dict["eval_args"] = {**_SEQUENTIAL_SPLIT, **arguments}
    given = set(self.external_config_dict)
    known = known_to(self)
    parent = parent_of(self.model)
    own = documented_in(map(Path, property_files(self.model)))
    if parent in OUR_MODELS:
        check(self.final_config_dict, given, known, self.model, own)
    else:
        found = mistakes_of_gru4rec_plus(self.final_config_dict) if parent == RIVAL else []
        if not str(self["teacher"]).isidentifier():  # KD_DAGFM runs it as a program (kd_dagfm.py:44)
            found.append(f"`teacher` must be the name of a network, such as CrossNet, but is {self['teacher']!r}.")
        found += mistakes_of_another_model(self.final_config_dict, given, known, parent, own)
        if found:
            raise UserError(f"the configuration of {self.model} has mistakes:\n  " + "\n  ".join(found))
    for name, why in without_effect(self).items():
        getLogger().warning(f"option `{name}` {why}")
    original(self)


def init_device(original: Callable[[Config], None], self: Config) -> None:
    """Compute on the processor where ``use_gpu`` is False, and never where the user asked for a GPU.

    Args:
        original: RecBole's ``Config._init_device``.
        self: the configuration.

    Raises:
        UserError: the user named a GPU and torch finds none; or a ``device``, which RecBole would not look at.
    """
    final, given = self.final_config_dict, self.external_config_dict
    if "device" in given:
        raise UserError(f"`device` is {given['device']!r}, but follows from `gpu_id` and `use_gpu`; give these")
    if final["use_gpu"] is False:
        final["gpu_id"] = ""
    original(self)
    asked = [f"{name}={given[name]!r}" for name in ("use_gpu", "gpu_id") if name in given]
    if isinstance(self, StoredConfig):  # it says what was, not what is wanted
        asked = []
    if asked and final["gpu_id"] and final["device"].type == "cpu":
        raise UserError(
            f"{' and '.join(asked)} asks for a GPU, but torch finds none ({_why_no_gpu()}); leave it out, or write "
            "use_gpu=False, to compute on the processor"
        )


def _why_no_gpu() -> str:
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    return f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')}"


def create_dataset(original: Callable[[Config], Any], config: Config) -> Any:
    """Unpickle a saved data set only with ``trust_pickles``.

    Args:
        original: RecBole's ``create_dataset``.
        config: of the run.

    Returns:
        The data set, read or made.

    Raises:
        UserError: ``dataset_save_path`` names a pickle that is not trusted.
    """
    home, name = recbole.data.dataset, f"{config['model']}Dataset"
    of_parent = getattr(home, f"{parent_of(config['model'])}Dataset", None)
    with ExitStack() as changes:
        if is_ours(config["model"]) and reads_mapped(config):
            changes.enter_context((replaced if hasattr(home, name) else added)(home, name, MappedDataset))
        elif not hasattr(home, name) and (has_user_rows(config) or of_parent is not None):
            changes.enter_context(added(home, name, BERT4RecDataset if has_user_rows(config) else of_parent))
        if not _trusts_pickles(config, "dataset_save_path"):
            changes.enter_context(replaced(recbole_data, "os", _NO_FILE_EXISTS))
        return original(config)


def data_preparation(original: Callable[[Config, Any], Any], config: Config, dataset: Any) -> Any:
    """Give options that are ``auto`` their values, now that the data are known; let no split at one moment leak.

    Args:
        original: RecBole's ``data_preparation``.
        config: of the run; changed in place.
        dataset: not yet split.

    Returns:
        The loaders of training, validation and test.

    Raises:
        UserError: the values have mistakes, or training would read what came after the moment.
    """
    if is_ours(config["model"]):
        size = LogSize(dataset.user_num - 1, dataset.item_num - 1, count_interactions(dataset))
        settled = settle(config, size)
        if settled:
            chosen = ", ".join(f"{name} {config[name]}" for name in settled)
            getLogger(FOR_THE_USER).info(f"{AUTO} is {chosen}, by the data: {size}")
            check(config.final_config_dict, model=config["model"])
    log = dataset.inter_feat  # as it was before RecBole cuts it into rows
    loaders = original(config, dataset)
    if asks_for_global_time(config["eval_args"]):
        users, times = log[dataset.uid_field].to_numpy(), log[dataset.time_field].to_numpy(dtype=np.float32)
        check_no_leak(loaders[0], users, times)
    return loaders


def keep_ids(original: Callable[..., Any], self: Any, filepath: str, source: Any) -> Any:
    """Read ids such as ``NA`` and ``None`` beside a converted log as what they are: rows without ids are not in there.

    Args:
        original: RecBole's ``Dataset._load_feat``.
        self: the data set.
        filepath: of an atomic file.
        source: what it holds.

    Returns:
        The table.
    """
    if read_record(Path(filepath).parent) is None:
        return original(self, filepath, source)
    now: Any = vars(recbole_dataset)["pd"]  # a data set of ours has its own reader there
    read_csv = keeping_ids(now.read_csv, (self.uid_field, self.iid_field))
    with replaced(recbole_dataset, "pd", StandIn(pd, read_csv=read_csv)):
        return original(self, filepath, source)


def build_dataset(original: Callable[[Any], list[Any]], self: Any) -> list[Any]:
    """Split at one moment for all users where the protocol says so.

    Args:
        original: RecBole's ``Dataset.build``.
        self: the data set.

    Returns:
        The parts.
    """
    return build_by_global_time(self) if splits_by_global_time(self) else original(self)


_NAMES: Counter[str] = Counter()
"""How often each name was given."""


def name_of_now(original: Callable[[], str]) -> str:
    """Return what RecBole names logs, TensorBoard folders and checkpoints by: the time, and this process's number.

    Where a name is asked for again within one second, it gets a further number, so no two are alike.
    """
    name = f"{original()}-{os.getpid()}"
    _NAMES[name] += 1
    return name if _NAMES[name] == 1 else f"{name}-{_NAMES[name]}"


def load_split_dataloaders(original: Callable[[Config], Any], config: Config) -> Any:
    """Unpickle saved loaders only with ``trust_pickles``.

    Args:
        original: RecBole's ``load_split_dataloaders``.
        config: of the run.

    Returns:
        The loaders of training, validation and test; None where there are none that fit.

    Raises:
        UserError: ``dataloaders_save_path`` names a pickle that is not trusted.
    """
    return original(config) if _trusts_pickles(config, "dataloaders_save_path") else None


def _trusts_pickles(config: Config, option: str) -> bool:
    """Tell whether saved data may be unpickled; refuse a file that ``option`` names where they may not."""
    if config["trust_pickles"] is True:
        return True
    if config[option]:
        raise UserError(
            f"`{option}` {config[option]} is a pickle, which can run any code as it is read; --trust_pickles=True "
            "reads it, for files whose maker you trust"
        )
    return False


_PLAIN_NUMPY = StandIn(np, load=lambda path, **_: np.load(path, allow_pickle=False))


def run_recbole(
    original: Callable[..., dict[str, Any]],
    model: Any = None,
    dataset: str | None = None,
    config_file_list: list[str] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
    queue: Any = None,
) -> dict[str, Any]:
    """Write the JSON record of the run, from its first epoch on, beside the checkpoint; all arguments are RecBole's."""
    with replaced(quick_start, "get_trainer", _recording_trainer):
        return original(model, dataset, config_file_list, config_dict, saved, queue)


def _recording_trainer(kind: ModelType, name: str) -> Callable[[Config, Any], Any]:
    """Return what makes RecBole's trainer of a model, with a record."""
    from recbole_bert4rec.training.callbacks import observed  # importing the package imports no programs
    from recbole_bert4rec.training.epochs import EpochLog
    from recbole_bert4rec.training.record import RecordWriter

    def make(config: Config, model: Any) -> Any:
        trainer_class: Any = recbole_utils.get_trainer(kind, name)
        if not issubclass(trainer_class, Trainer):  # of decision trees, which have no epochs
            return trainer_class(config, model)
        trainer, log = observed(trainer_class)(config, model), EpochLog()
        trainer.callbacks = (log, RecordWriter(log))
        return trainer

    return make


def init_logger(original: Callable[[Config], None], config: Config) -> None:
    """Give each run a log file of its own, which stays below :data:`_LARGEST_LOG`.

    Args:
        original: RecBole's ``init_logger``.
        config: of the run.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if handler in _HANDLERS]:
        root.removeHandler(handler)
        handler.close()

    def attach(level: int, handlers: list[logging.Handler]) -> None:
        root.setLevel(level)
        for handler in handlers:
            if os.environ.get("NO_COLOR") and not isinstance(handler, logging.FileHandler):
                handler.setFormatter(logging.Formatter("%(asctime)-15s %(levelname)s  %(message)s", "%d %b %H:%M"))
                handler.addFilter(recbole_logger.RemoveColorFilter())
            root.addHandler(handler)
            _HANDLERS.add(handler)

    of_colorama = vars(recbole_logger)["init"]

    def wrap(autoreset: bool) -> None:
        if type(sys.stdout).__name__ != "StreamWrapper":  # each run would put one more around the last one
            of_colorama(autoreset=autoreset)

    with (
        replaced(recbole_logger, "logging", StandIn(logging, basicConfig=attach, FileHandler=_LogFile)),
        replaced(recbole_logger, "init", wrap),
    ):
        original(config)


def set_color(original: Callable[[str, str, bool], str], log: str, color: str, highlight: bool = True) -> str:
    """Colour nothing where the environment says ``NO_COLOR`` (https://no-color.org)."""
    return log if os.environ.get("NO_COLOR") else original(log, color, highlight)


def load_data_and_model(
    original: Callable[..., Any], model_file: str, unpickle: bool = False, model: str | type | None = None
) -> tuple[Any, ...]:
    """Return what a checkpoint was trained on and the model in it.

    Args:
        original: RecBole's ``load_data_and_model``.
        model_file: the checkpoint.
        unpickle: read a checkpoint that RecBole wrote. Such a file is a pickle and can run any code as it is read:
            say True only of files whose maker you trust.
        model: the class, or ``module:Class``, of a model of one's own.

    Returns:
        Configuration, model, data set, and the loaders of training, validation and test.

    Raises:
        UserError: the file is damaged or not this package's, or the data set no longer has the items, in the order of
            their ids, that the model was trained on.
    """
    if model is not None:
        known_as(model)
    try:
        state = checkpoint.read(model_file)
        config = StoredConfig(state["config"])
    except ForeignFileError as error:
        if not unpickle:
            raise ForeignFileError(f"{error}; if RecBole wrote it, {TRUST}") from error
        state = torch.load(model_file, map_location="cpu", weights_only=False)
        if not isinstance(state, dict) or not isinstance(state.get("config"), Config):
            raise UserError(f"{model_file} is not a checkpoint of RecBole: there is no configuration in it") from error
        config = state["config"]
        known_as(config.model_class)
    init_seed(config["seed"], config["reproducibility"])
    recbole_logger.init_logger(config)
    getLogger().info(config)
    dataset = recbole_data.create_dataset(config)
    getLogger().info(dataset)
    loaders = recbole_data.data_preparation(config, dataset)
    training = loaders[0]._dataset
    if "item_tokens" in state:
        checkpoint.check_items(model_file, state["item_tokens"], training)
    init_seed(config["seed"], config["reproducibility"])
    network = recbole_utils.get_model(config["model"])(config, training).to(config["device"])
    with checkpoint.explain_misfit(model_file):
        network.load_state_dict(state["state_dict"])
        network.load_other_parameter(state.get("other_parameter"))
    return (config, network, dataset, *loaders)


_CONFIG = "recbole.config.configurator:Config"

PATCHES = (
    Patch(
        _CONFIG,
        "_load_config_files",
        load_config_files,
        "A mistake in a YAML file is said in one line, with the file (configurator.py:149).",
        Scope.POLICY,
    ),
    Patch(
        _CONFIG,
        "_convert_config_dict",
        convert_texts,
        "RecBole runs every text of the command line and of dictionaries as a program (configurator.py:131).",
        Scope.POLICY,
    ),
    Patch(
        _CONFIG,
        "_load_internal_config_dict",
        load_defaults,
        "BERT4Rec's defaults, the data sets' settings, and for sequential models a time column and no sampled "
        "negatives with CE, which RecBole would refuse (configurator.py:242).",
        Scope.POLICY,
    ),
    Patch(
        _CONFIG,
        "_set_default_parameters",
        check_options,
        "BERT4Rec's options are checked, and sequential models get the split that RecBole demands "
        "(configurator.py:327).",
        Scope.POLICY,
    ),
    Patch(
        _CONFIG,
        "_init_device",
        init_device,
        "`use_gpu: False` still takes a GPU, and `gpu_id` of a GPU that is not there the processor "
        "(configurator.py:487).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.data.utils",
        "create_dataset",
        create_dataset,
        "RecBole unpickles whatever lies in `checkpoint_dir` under the right name (data/utils.py:61).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.data.utils",
        "data_preparation",
        data_preparation,
        "Options of BERT4Rec that are `auto` get their values, which follow from the data (data/utils.py:144).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.data.utils",
        "load_split_dataloaders",
        load_split_dataloaders,
        "RecBole unpickles whatever lies in `checkpoint_dir` under the right name (data/utils.py:122).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.utils.utils",
        "get_local_time",
        name_of_now,
        "Two runs of the same second write into one log file and one checkpoint (logger.py:85).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.trainer.hyper_tuning",
        "eval",
        ast.literal_eval,
        "RecBole runs the choices of a parameter file as programs (hyper_tuning.py:239).",
        Scope.POLICY,
        as_is=True,
    ),
    Patch(
        "recbole.model.general_recommender.ldiffrec",
        "np",
        _PLAIN_NUMPY,
        "RecBole unpickles the item_emb.npy of a data set (ldiffrec.py:232).",
        Scope.POLICY,
        as_is=True,
    ),
    Patch(
        "recbole.data.utils",
        "create_samplers",
        create_samplers,
        "`candidates: paper` draws the paper's candidates, for any model (data/utils.py:333).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.data.dataset.dataset:Dataset",
        "_load_inter_feat",
        load_interactions,
        "Where there is no NAME.inter, NAME.inter.gz is read; of a converted log, the conversion that the run began "
        "with (dataset.py:277).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.data.dataset.dataset:Dataset",
        "_load_feat",
        keep_ids,
        "RecBole takes ids such as NA, None and null for missing and drops their rows; of a converted log they are "
        "kept (dataset.py:486).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.data.dataset.dataset:Dataset",
        "build",
        build_dataset,
        "RecBole has no split at one moment for all users (dataset.py:1868).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.utils.logger",
        "init_logger",
        init_logger,
        "A second run in a process logs into the first one's file, and a run where a program has logged before into "
        "none (logger.py:115).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.utils.logger",
        "set_color",
        set_color,
        "RecBole colours its lines whatever NO_COLOR says (logger.py:46).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.quick_start.quick_start",
        "run_recbole",
        run_recbole,
        "RecBole leaves no record of a run but its log (quick_start.py:93).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.quick_start.quick_start",
        "tune",
        reporting,
        "RecBole imports Ray to call `tune.report(**metrics)`, even where Ray runs no trial; Ray is optional here, and "
        "its current versions take a dictionary (quick_start.py:20, 223).",
        Scope.POLICY,
        as_is=True,
    ),
    Patch(
        "recbole.quick_start.quick_start",
        "load_data_and_model",
        load_data_and_model,
        "Checkpoints of BERT4Rec are read without unpickling, those of RecBole on request (quick_start.py:250).",
        Scope.POLICY,
    ),
    Patch(
        "recbole.trainer.trainer:Trainer",
        "_neg_sample_batch_eval",
        score_candidates,
        "RecBole encodes a history once for each of a user's candidates, 101 times with the paper's (trainer.py:542).",
        Scope.POLICY,
    ),
    *(
        Patch(
            f"recbole.model.sequential_recommender.{name.lower()}:{name}",
            "calculate_loss",
            loss_of_windows,
            "`training_rows: user` gives whole sequences; RecBole's loss takes rows with one label (sasrec.py:116).",
            Scope.POLICY,
        )
        for name in CAUSAL_MODELS
    ),
    *(
        Patch(
            "recbole.utils.argument_list:dataset_arguments",
            option,
            None,
            "A saved data set is used again only where this option of BERT4Rec is the same (data/utils.py:63).",
            Scope.MODEL,
        )
        for option in SHAPES_DATA
    ),
)
