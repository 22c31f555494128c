"""Faults of RecBole 1.2.1, by itself or with today's libraries: one function, one reason and one test a fault."""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np
import recbole.data.dataset.dataset as recbole_dataset
import recbole.trainer.hyper_tuning as recbole_hyper_tuning
import recbole.trainer.trainer as recbole_trainer
import torch
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset
from recbole.data.interaction import Interaction
from recbole.evaluator import Collector, DataStruct, Evaluator
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.model.general_recommender import Pop
from recbole.trainer import Trainer
from scipy.sparse import dok_matrix
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.patches.registry import Patch, Scope
from recbole_bert4rec.plugin.distributed import share_checkpoint_name
from recbole_bert4rec.scoped import StandIn, added, replaced

if TYPE_CHECKING:
    from recbole.model.abstract_recommender import ConcreteRecommender  # a name of the stubs

P = ParamSpec("P")
Value = TypeVar("Value")

TRUST = "it is a pickle, which can run any code as it is read; unpickle=True reads it, for files whose maker you trust"
"""What is said of a checkpoint that RecBole wrote."""

_DOK_LACKS_UPDATE = not hasattr(dok_matrix, "_update")
_UNPICKLING_TORCH = StandIn(torch, load=partial(torch.load, weights_only=False))
_GENERATOR_NUMPY = StandIn(np, random=StandIn(np.random, RandomState=np.random.default_rng))
_LONELY_TORCH = StandIn(torch, distributed=StandIn(torch.distributed, barrier=lambda: None))


def evaluate(
    original: Callable[..., Any],
    self: Trainer,
    eval_data: AbstractDataLoader,
    load_best_model: bool = True,
    model_file: str | None = None,
    show_progress: bool = False,
    unpickle: bool = False,
) -> Any:
    """Unpickle the checkpoint that this trainer itself saved, which torch >= 2.6 refuses; others on request.

    Args:
        original: RecBole's ``Trainer.evaluate``.
        self: the trainer.
        eval_data: as RecBole's.
        load_best_model: as RecBole's.
        model_file: as RecBole's.
        show_progress: as RecBole's.
        unpickle: read ``model_file`` even if another trainer saved it; it can run code.

    Raises:
        UserError: the checkpoint is not one that this trainer saved.
    """
    if not eval_data or not load_best_model:
        return original(self, eval_data, load_best_model, model_file, show_progress)
    file = str(model_file or self.saved_model_file)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()  # until rank 0 has written what all read
    if not unpickle and os.path.exists(file) and os.path.abspath(file) not in _saved_by(self):
        raise UserError(f"{file} was not saved by this trainer, and {TRUST}")
    with replaced(recbole_trainer, "torch", _UNPICKLING_TORCH):
        return original(self, eval_data, load_best_model, model_file, show_progress)


def resume_checkpoint(original: Callable[..., None], self: Trainer, resume_file: str, unpickle: bool = False) -> None:
    """Unpickle a checkpoint of RecBole's own, which torch >= 2.6 refuses, on request only.

    Args:
        original: RecBole's ``Trainer.resume_checkpoint``.
        self: the trainer.
        resume_file: the checkpoint.
        unpickle: read the file; it can run code.

    Raises:
        UserError: ``unpickle`` is not said.
    """
    if not unpickle and os.path.exists(resume_file):
        raise UserError(f"{resume_file} is not resumed: {TRUST}")
    with replaced(recbole_trainer, "torch", _UNPICKLING_TORCH):
        original(self, resume_file)


def save_and_remember(
    original: Callable[..., None], self: Trainer, epoch: int, verbose: bool = True, **kwargs: str
) -> None:
    """Remember which files this trainer saved: those it may unpickle."""
    file = kwargs.get("saved_model_file", self.saved_model_file)
    original(self, epoch, verbose, **kwargs)
    _saved_by(self).add(os.path.abspath(file))


def save_pretrained_and_remember(
    original: Callable[..., None], self: Trainer, epoch: int, saved_model_file: str
) -> None:
    """Remember a file of pre-training, too."""
    original(self, epoch, saved_model_file)
    _saved_by(self).add(os.path.abspath(saved_model_file))


def _saved_by(trainer: Trainer) -> set[str]:
    files: set[str] = trainer.__dict__.setdefault("files_it_saved", set())
    return files


def update_dok_matrix(self: dok_matrix, entries: dict[tuple[int, int], float]) -> None:
    """Fill a matrix as ``dok_matrix._update`` did."""
    self._dict.update(entries)  # type: ignore[attr-defined]  # private, so its types leave it out


def search_with_generator(original: Callable[P, Value], *args: P.args, **kwargs: P.kwargs) -> Value:
    """Give hyperopt the numpy Generator that it draws from."""
    with replaced(recbole_hyper_tuning, "np", _GENERATOR_NUMPY):
        return original(*args, **kwargs)


def collect_plain_values(original: Callable[[Collector], Any], self: Collector) -> Any:
    """Keep plain numbers out of what is moved to the CPU."""
    everything = self.data_struct._data_dict
    plain = {key: value for key, value in everything.items() if not hasattr(value, "cpu")}
    for key in plain:
        del everything[key]
    collected = original(self)
    everything.update(plain)
    collected._data_dict.update(copy.deepcopy(plain))
    return collected


def plain_metrics(
    original: Callable[[Evaluator, DataStruct], OrderedDict[str, float]], self: Evaluator, dataobject: DataStruct
) -> OrderedDict[str, float]:
    """Return metrics as Python's numbers, which are printed as such."""
    metrics = original(self, dataobject)
    metrics.update((name, value.item()) for name, value in metrics.items() if isinstance(value, np.generic))
    return metrics


def remove_duplication(original: Callable[[Dataset], None], self: Dataset) -> None:
    """Sort by time with a stable sort before duplicates are removed."""
    frame = self.inter_feat
    # on the frame itself: other frames, in this thread or another, are sorted as ever
    object.__setattr__(frame, "sort_values", partial(frame.sort_values, kind="stable"))
    try:
        original(self)
    finally:
        object.__delattr__(frame, "sort_values")


def init_device(original: Callable[[Config], None], self: Config) -> None:
    """Let several processes train on the CPU, with gloo, and take them as they are where they are connected already."""
    final, connected = self.final_config_dict, torch.distributed.is_initialized()
    if "local_rank" not in final:
        return original(self)
    local_rank, rank = final["local_rank"], final["local_rank"] + final["offset"]
    if torch.cuda.is_available() and final["gpu_id"]:
        with replaced(torch.distributed, "init_process_group", _nothing) if connected else nullcontext():
            original(self)
    else:
        del final["local_rank"]
        original(self)  # as for a single process on the CPU
        if not connected:
            address = f"tcp://{final['ip']}:{final['port']}"
            torch.distributed.init_process_group("gloo", address, rank=rank, world_size=final["world_size"])
        final.update(local_rank=local_rank, single_spec=False)
    if rank != 0:
        final.update(state="error", show_progress=False, verbose=False)
    return None


def _nothing(*arguments: Any, **more: Any) -> None:
    """Do nothing."""


def distribute(module: torch.nn.Module, device_ids: list[int] | None = None, **kwargs: Any) -> torch.nn.Module:
    """Return torch's DistributedDataParallel, which takes no device ids on the CPU."""
    on_gpu = next(module.parameters()).is_cuda
    return DistributedDataParallel(module, device_ids=device_ids if on_gpu else None, **kwargs)


def init_trainer(
    original: Callable[[Trainer, Config, AbstractRecommender], None],
    self: Trainer,
    config: Config,
    model: AbstractRecommender,
) -> None:
    """Let all ranks name the one checkpoint that rank 0 writes."""
    original(self, config, model)
    share_checkpoint_name(self)


def ensure_dir(dir_path: str) -> None:
    """Make a folder, though another process may make it at the same time."""
    os.makedirs(dir_path, exist_ok=True)


def download(original: Callable[[Dataset], None], self: Dataset) -> None:
    """Wait for other processes only where there are some."""
    if torch.distributed.is_initialized():
        return original(self)
    with replaced(recbole_dataset, "torch", _LONELY_TORCH):
        return original(self)


class _AnomalyDetection:
    """Torch's switch as an attribute."""

    @property
    def enabled(self) -> bool:
        return torch.is_anomaly_enabled()

    @enabled.setter
    def enabled(self, value: bool) -> None:
        torch.autograd.set_detect_anomaly(value)


anomaly_detection = _AnomalyDetection()


def compatibility_settings(original: Callable[[Config], None], self: Config) -> None:
    """Lend numpy, while RecBole gives it names of before 1.24, those of before 2 from which they are made."""
    with added(np, "float_", np.float64), added(np, "complex_", np.complex128), added(np, "unicode_", np.str_):
        original(self)


def argsort(key: Tensor, kind: str) -> Tensor:
    """Return the order of a tensor's values, equal ones as they stand."""
    return torch.argsort(key, stable=kind == "stable")


def drop_rows_without_ids(original: Callable[[Dataset], None], self: Dataset) -> None:
    """Drop the rows that have no user or no item, and no others."""
    for field in (self.uid_field, self.iid_field):
        if field is None:
            continue
        missing = self.inter_feat.index[self.inter_feat[field].isnull()]
        if len(missing):
            lines = f"{list(missing[:10] + 2)}{' and others' if len(missing) > 10 else ''}"
            self.logger.warning(
                f"In inter_feat, line {lines}, {field} do not exist, so they will be removed ({len(missing)} lines)."
            )
            self.inter_feat.drop(index=missing, inplace=True)
    original(self)


def count_for_pop(original: Callable[[Pop, Interaction], Tensor], self: Pop, interaction: Interaction) -> Tensor:
    """Count every interaction of a batch."""
    counts = self.item_cnt.clone()
    loss = original(self, interaction)
    counts.index_add_(0, interaction[self.ITEM_ID], torch.ones_like(interaction[self.ITEM_ID]).unsqueeze(1))
    self.item_cnt, self.max_cnt = counts, counts.max(dim=0)[0]
    return loss


def no_negatives_for_pop(
    original: Callable[..., None], self: Config, model: str, model_class: type[ConcreteRecommender], dataset: str
) -> None:
    """Give Pop no sampled negatives."""
    original(self, model, model_class, dataset)
    if model == "Pop":
        self.internal_config_dict["train_neg_sample_args"] = None


_TRAINER = "recbole.trainer.trainer:Trainer"

PATCHES = (
    Patch(
        _TRAINER,
        "evaluate",
        evaluate,
        "torch >= 2.6 refuses the pickle that RecBole wrote a moment ago (trainer.py:583).",
        Scope.FIX,
    ),
    Patch(
        _TRAINER,
        "resume_checkpoint",
        resume_checkpoint,
        "torch >= 2.6 refuses RecBole's pickled checkpoints (trainer.py:323).",
        Scope.FIX,
    ),
    Patch(
        _TRAINER,
        "_save_checkpoint",
        save_and_remember,
        "A trainer unpickles only files that it saved itself (trainer.py:308).",
        Scope.FIX,
    ),
    Patch(
        "recbole.trainer.trainer:PretrainTrainer",
        "save_pretrained_model",
        save_pretrained_and_remember,
        "A trainer unpickles only files that it saved itself (trainer.py:770).",
        Scope.FIX,
    ),
    Patch(
        "scipy.sparse:dok_matrix",
        "_update",
        update_dok_matrix,
        "SciPy 1.13 removed it; RecBole's graph models fill their matrix with it (lightgcn.py:111 and others).",
        Scope.FIX,
        as_is=True,
        needed=lambda: _DOK_LACKS_UPDATE,
    ),
    Patch(
        "recbole.config.configurator:Config",
        "compatibility_settings",
        compatibility_settings,
        "numpy 2 has no `float_`, `complex_` and `unicode_`, so no configuration can be made (configurator.py:630).",
        Scope.POLICY,  # without it nothing runs
        needed=lambda: not hasattr(np, "float_"),
    ),
    Patch(
        "recbole.data.interaction",
        "np",
        StandIn(np, argsort=argsort),
        "A tensor is sorted by numpy, which numpy 2 warns of (interaction.py:347).",
        Scope.FIX,
        as_is=True,
    ),
    Patch(
        "recbole.trainer.trainer",
        "amp",
        StandIn(torch.cuda.amp, GradScaler=torch.amp.GradScaler),
        "torch 2.4 renamed the scaler of gradients, and warns in every epoch (trainer.py:235).",
        Scope.FIX,
        as_is=True,
    ),
    Patch(
        "recbole.trainer.hyper_tuning",
        "exhaustive_search",
        search_with_generator,
        "hyperopt >= 0.2.7 draws from a numpy Generator, but RecBole gives it a RandomState (hyper_tuning.py:117).",
        Scope.FIX,
    ),
    Patch(
        "recbole.evaluator.collector:Collector",
        "get_data_struct",
        collect_plain_values,
        "RecBole moves everything to the CPU, also the integers that ItemCoverage needs (collector.py:227).",
        Scope.FIX,
    ),
    Patch(
        "recbole.evaluator.evaluator:Evaluator",
        "evaluate",
        plain_metrics,
        "Metrics are numpy's numbers, which numpy 2 prints as `np.float64(0.1)` in logs (evaluator.py:50).",
        Scope.FIX,
    ),
    Patch(
        "recbole.data.dataset.dataset:Dataset",
        "_remove_duplication",
        remove_duplication,
        "`rm_dup_inter` sorts by time with an unstable sort: which of two simultaneous rows stays is accidental "
        "(dataset.py:853).",
        Scope.FIX,
    ),
    Patch(
        "recbole.config.configurator:Config",
        "_init_device",
        init_device,
        "Several processes need nccl and CUDA devices, so none can train on the CPU (configurator.py:498).",
        Scope.FIX,
    ),
    Patch(
        "recbole.trainer.trainer",
        "DistributedDataParallel",
        distribute,
        "RecBole passes device ids, which torch refuses on the CPU (trainer.py:62).",
        Scope.FIX,
        as_is=True,
    ),
    Patch(
        _TRAINER,
        "__init__",
        init_trainer,
        "Every rank names its checkpoint by the second, but reads the one that rank 0 wrote (trainer.py:132).",
        Scope.FIX,
    ),
    Patch(
        "recbole.utils.utils",
        "ensure_dir",
        ensure_dir,
        "Two processes that make the same folder at the same time: the slower one fails (utils.py:51).",
        Scope.FIX,
        as_is=True,
    ),
    Patch(
        "recbole.data.dataset.dataset:Dataset",
        "_download",
        download,
        "A download ends in `torch.distributed.barrier()`, which raises in a single process (dataset.py:252).",
        Scope.FIX,
    ),
    Patch(
        "recbole_bert4rec.patches.fixes:anomaly_detection",
        "enabled",
        False,
        "Importing RecBole turns torch's anomaly detection on, which makes steps 2.5 times slower (sine.py:25).",
        Scope.FIX,
        as_is=True,
    ),
    Patch(
        "recbole.data.dataset.dataset:Dataset",
        "_filter_nan_user_or_item",
        drop_rows_without_ids,
        "Rows without item are dropped by positions that no longer hold: others go, or an IndexError comes "
        "(dataset.py:818).",
        Scope.FIX,
    ),
    Patch(
        "recbole.model.general_recommender.pop:Pop",
        "calculate_loss",
        count_for_pop,
        "Pop counts an item once a batch, however often it stands there (pop.py:47).",
        Scope.FIX,
    ),
    Patch(
        "recbole.config.configurator:Config",
        "_load_internal_config_dict",
        no_negatives_for_pop,
        "Pop counts sampled negatives as interactions (pop.py:47).",
        Scope.FIX,
    ),
)
