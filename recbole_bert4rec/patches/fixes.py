"""What RecBole 1.2.1 needs to run to the end on today's libraries; one small patch a function, each applied once.

Every patch works from outside, changes nothing where the fault is gone, and has a test that fails without it.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import recbole.data.dataset
import recbole.data.utils
import recbole.model.sequential_recommender.sine as sine
import recbole.quick_start.quick_start
import recbole.trainer
import recbole.trainer.hyper_tuning
import recbole.trainer.trainer
import recbole.utils.logger
import torch
from recbole.config import Config
from recbole.data.dataset import Dataset
from recbole.evaluator import Collector
from recbole.model.general_recommender import Pop
from recbole.trainer import Trainer
from scipy.sparse import dok_matrix
from torch.nn.parallel import DistributedDataParallel

from recbole_bert4rec.plugin.distributed import share_checkpoint_name

_MARK = "_patched_by_recbole_bert4rec"


def apply() -> None:
    """Apply all patches; again is harmless."""
    load_checkpoints_on_torch_2_6()
    restore_dok_update()
    search_exhaustively_with_new_hyperopt()
    collect_plain_values()
    sort_stably_before_removing_duplicates()
    train_on_cpu_processes()
    download_without_process_group()
    leave_anomaly_detection_off()
    drop_the_rows_without_ids()
    count_every_interaction_for_pop()


def wrap(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Replace ``owner.name`` by ``replacement(original, *args)``, once."""
    original = layer = getattr(owner, name)
    while layer is not None:
        if getattr(layer, _MARK, None) is replacement:
            return
        layer = getattr(layer, "__wrapped__", None)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    setattr(wrapped, _MARK, replacement)
    setattr(owner, name, wrapped)


def load_checkpoints_on_torch_2_6() -> None:
    """torch >= 2.6 refuses RecBole's pickled checkpoints (trainer.py:323, 583; quick_start.py:250).

    Only RecBole's own calls are allowed to unpickle again: these read files that RecBole wrote on this machine.
    """
    wrap(Trainer, "evaluate", _unpickling)
    wrap(Trainer, "resume_checkpoint", _unpickling)
    wrap(recbole.quick_start.quick_start, "load_data_and_model", _unpickling)


def _unpickling(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    safe_load = torch.load

    def load(*load_args: Any, **load_kwargs: Any) -> Any:
        return safe_load(*load_args, **{"weights_only": False, **load_kwargs})

    if torch.distributed.is_initialized():
        torch.distributed.barrier()  # until rank 0 has written what all read
    with mock.patch.object(torch, "load", load):
        return original(*args, **kwargs)


def restore_dok_update() -> None:
    """SciPy 1.13 removed ``dok_matrix._update``, with which RecBole's graph models fill their adjacency matrix."""
    if not hasattr(dok_matrix, "_update"):
        dok_matrix._update = lambda self, entries: self._dict.update(entries)  # type: ignore[attr-defined]


def search_exhaustively_with_new_hyperopt() -> None:
    """hyperopt >= 0.2.7 samples with a numpy Generator; RecBole gives it a RandomState (hyper_tuning.py:117)."""
    wrap(recbole.trainer.hyper_tuning, "exhaustive_search", _with_generator)


def _with_generator(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with mock.patch.object(np.random, "RandomState", np.random.default_rng):
        return original(*args, **kwargs)


def collect_plain_values() -> None:
    """Collector.get_data_struct moves everything to the CPU, also the integers that ItemCoverage needs."""
    wrap(Collector, "get_data_struct", _tensors_and_plain_values)


def _tensors_and_plain_values(original: Callable[[Collector], Any], self: Collector) -> Any:
    everything = self.data_struct._data_dict
    plain = {key: value for key, value in everything.items() if not hasattr(value, "cpu")}
    for key in plain:
        del everything[key]
    collected = original(self)
    everything.update(plain)
    collected._data_dict.update(copy.deepcopy(plain))
    return collected


def sort_stably_before_removing_duplicates() -> None:
    """``rm_dup_inter`` sorts by time with an unstable sort: which of two simultaneous rows stays is accidental."""
    wrap(Dataset, "_remove_duplication", _with_stable_sort)


def _with_stable_sort(original: Callable[[Dataset], None], self: Dataset) -> None:
    sort_values = pd.DataFrame.sort_values

    def stable(frame: pd.DataFrame, *args: Any, **kwargs: Any) -> Any:
        return sort_values(frame, *args, **{"kind": "stable", **kwargs})

    with mock.patch.object(pd.DataFrame, "sort_values", stable):
        original(self)


def train_on_cpu_processes() -> None:
    """``nproc > 1`` hard-codes nccl and CUDA devices (configurator.py:498, trainer.py:63).

    Ranks also race for folders, and name and read checkpoints that only rank 0 writes.
    """
    wrap(Config, "_init_device", _init_device)
    recbole.trainer.trainer.DistributedDataParallel = _distributed
    wrap(Trainer, "__init__", _with_shared_checkpoint)
    for module in (recbole.utils.logger, recbole.trainer.trainer, recbole.data.utils):  # ranks make the same folders
        module.ensure_dir = functools.partial(os.makedirs, exist_ok=True)  # type: ignore[attr-defined]


def _init_device(original: Callable[[Config], None], self: Config) -> None:
    final = self.final_config_dict
    if "local_rank" not in final or (torch.cuda.is_available() and final["gpu_id"]):
        return original(self)
    rank = final.pop("local_rank")
    original(self)  # as for a single process on the CPU
    address = f"tcp://{final['ip']}:{final['port']}"
    world_size = final["world_size"]
    torch.distributed.init_process_group("gloo", address, rank=rank + final["offset"], world_size=world_size)
    final.update(local_rank=rank, single_spec=False)
    if rank != 0:
        final.update(state="error", show_progress=False, verbose=False)
    return None


def _with_shared_checkpoint(original: Callable[..., None], self: Trainer, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **kwargs)
    share_checkpoint_name(self)


def _distributed(module: torch.nn.Module, device_ids: list[int] | None = None, **kwargs: Any) -> torch.nn.Module:
    on_gpu = next(module.parameters()).is_cuda
    return DistributedDataParallel(module, device_ids=device_ids if on_gpu else None, **kwargs)


def download_without_process_group() -> None:
    """A download ends in ``torch.distributed.barrier()`` (dataset.py:252), which raises in a single process."""
    wrap(recbole.data.dataset.Dataset, "_download", _without_barrier)


def _without_barrier(original: Callable[[Dataset], None], self: Dataset) -> None:
    if torch.distributed.is_initialized():
        return original(self)
    with mock.patch.object(torch.distributed, "barrier"):
        return original(self)


def leave_anomaly_detection_off() -> None:
    """sine.py turns anomaly detection on for the whole process as it is imported: steps take 2.5 times longer.

    Off once; whoever turns it on later, for debugging, keeps it.
    """
    if not hasattr(sine, _MARK):
        torch.autograd.set_detect_anomaly(False)
        setattr(sine, _MARK, leave_anomaly_detection_off)


def drop_the_rows_without_ids() -> None:
    """Dataset drops rows without user, then those without item by positions that no longer hold (dataset.py:818).

    It removes others instead, whose ids are there, or raises an IndexError.
    """
    wrap(Dataset, "_filter_nan_user_or_item", _drop_rows_without_ids)


def _drop_rows_without_ids(original: Callable[[Dataset], None], self: Dataset) -> None:
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


def count_every_interaction_for_pop() -> None:
    """Pop counts an item once a batch, however often it stands there (pop.py:44).

    It counts sampled negatives, too; the registry gives it none.
    """
    wrap(Pop, "calculate_loss", _count)


def _count(original: Callable[..., Any], self: Pop, interaction: Any) -> Any:
    counts = self.item_cnt.clone()
    loss = original(self, interaction)
    counts.index_add_(0, interaction[self.ITEM_ID], torch.ones_like(interaction[self.ITEM_ID]).unsqueeze(1))
    self.item_cnt, self.max_cnt = counts, counts.max(dim=0)[0]
    return loss
