"""Faults of RecBole 1.2.1 that change figures, or only matter in our programs: one function and one reason a fault."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from recbole.evaluator import DataStruct, Evaluator
from recbole.model.general_recommender import Pop
from recbole.trainer import Trainer
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from recbole_bert4rec.plugin.patches.patch import Patch, Scope
from recbole_bert4rec.system.scoped import replaced


def wait_for_checkpoint(
    original: Callable[..., Any],
    self: Trainer,
    eval_data: AbstractDataLoader,
    load_best_model: bool = True,
    *args: object,
    **kwargs: object,
) -> Any:
    """Wait until the first process has written the checkpoint that all read."""
    if eval_data and load_best_model and torch.distributed.is_initialized():
        torch.distributed.barrier()
    return original(self, eval_data, load_best_model, *args, **kwargs)


def plain_metrics(
    original: Callable[[Evaluator, DataStruct], OrderedDict[str, float]], self: Evaluator, dataobject: DataStruct
) -> OrderedDict[str, float]:
    """Return metrics as Python's numbers, which are printed as such."""
    metrics = original(self, dataobject)
    metrics.update((name, value.item()) for name, value in metrics.items() if isinstance(value, np.generic))
    return metrics


def init_device(original: Callable[[Config], None], self: Config) -> None:
    """Let several processes train on the CPU, with gloo, and keep connections that exist already."""
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


def _nothing(*arguments: object, **more: object) -> None:
    """Do nothing."""


def distribute(module: torch.nn.Module, device_ids: list[int] | None = None, **kwargs: Any) -> torch.nn.Module:
    """Return torch's DistributedDataParallel, which takes no device ids on the CPU."""
    on_gpu = next(module.parameters()).is_cuda
    return DistributedDataParallel(module, device_ids=device_ids if on_gpu else None, **kwargs)


class _AnomalyDetection:
    """Torch's switch as an attribute."""

    @property
    def enabled(self) -> bool:
        return torch.is_anomaly_enabled()

    @enabled.setter
    def enabled(self, value: bool) -> None:
        torch.autograd.set_detect_anomaly(value)


anomaly_detection = _AnomalyDetection()


def count_for_pop(original: Callable[[Pop, Interaction], Tensor], self: Pop, interaction: Interaction) -> Tensor:
    """Count every interaction of a batch."""
    counts = self.item_cnt.clone()
    loss = original(self, interaction)
    counts.index_add_(0, interaction[self.ITEM_ID], torch.ones_like(interaction[self.ITEM_ID]).unsqueeze(1))
    self.item_cnt, self.max_cnt = counts, counts.max(dim=0)[0]
    return loss


def no_negatives_for_pop(
    original: Callable[..., None], self: Config, model: str, model_class: type, dataset: str
) -> None:
    """Give Pop no sampled negatives."""
    original(self, model, model_class, dataset)
    if model == "Pop":
        self.internal_config_dict["train_neg_sample_args"] = None


_fix = partial(Patch, scope=Scope.FIX)
PATCHES = (
    _fix(
        "recbole.trainer.trainer:Trainer",
        "evaluate",
        wait_for_checkpoint,
        "Other processes read the checkpoint before the first one has written it (trainer.py:583).",
    ),
    _fix(
        "recbole.evaluator.evaluator:Evaluator",
        "evaluate",
        plain_metrics,
        "Metrics are numpy's numbers, which numpy 2 prints as `np.float64(0.1)` in logs (evaluator.py:50).",
    ),
    _fix(
        "recbole.config.configurator:Config",
        "_init_device",
        init_device,
        "Several processes need nccl and CUDA devices, so none can train on the CPU (configurator.py:498).",
    ),
    _fix(
        "recbole.trainer.trainer",
        "DistributedDataParallel",
        distribute,
        "RecBole passes device ids, which torch refuses on the CPU (trainer.py:62).",
        as_is=True,
    ),
    _fix(
        "recbole_bert4rec.plugin.patches.fixes:anomaly_detection",
        "enabled",
        False,
        "Importing RecBole turns torch's anomaly detection on, which makes steps 2.5 times slower (sine.py:25).",
        as_is=True,
    ),
    _fix(
        "recbole.model.general_recommender.pop:Pop",
        "calculate_loss",
        count_for_pop,
        "Pop counts an item once a batch, however often it stands there (pop.py:47).",
    ),
    _fix(
        "recbole.config.configurator:Config",
        "_load_internal_config_dict",
        no_negatives_for_pop,
        "Pop counts sampled negatives as interactions (pop.py:47).",
    ),
)
