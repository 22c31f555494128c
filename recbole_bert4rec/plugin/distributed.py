"""Agreement between processes that train together."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, cast

import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from torch import Tensor
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel


def rank_of(config: Config) -> int:
    """Return the number of this process among all that train together, on whatever machine; 0 where it is alone."""
    return 0 if config["single_spec"] else int(config["local_rank"] + (config["offset"] or 0))


def of_all_labels(loss: Tensor, count: int) -> Tensor:
    """Weigh a mean loss so that the mean over processes is the mean over all labels.

    DistributedDataParallel takes the mean of the gradients, but processes have different numbers of labels.
    """
    total = torch.tensor(float(count), device=loss.device)
    dist.all_reduce(total)
    return loss * (count * dist.get_world_size() / total)


def mean_of_all(values: list[float], device: torch.device) -> list[float]:
    """Return the mean of each number over all processes."""
    numbers = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(numbers)
    return [float(number) for number in numbers / dist.get_world_size()]


def gathered(values: Tensor) -> list[Tensor]:
    """Return the tensors of all processes; their first dimensions may differ."""
    tensors: list[Tensor] = [values] * dist.get_world_size()
    dist.all_gather_object(tensors, values)
    return tensors


def distributed(module: Module, device_ids: list[int] | None = None, **kwargs: Any) -> Module:
    """Return torch's DistributedDataParallel, which takes no device ids on the CPU (trainer.py:62)."""
    on_gpu = next(module.parameters()).is_cuda
    return DistributedDataParallel(module, device_ids=device_ids if on_gpu else None, **kwargs)


def share_rows(loader: AbstractDataLoader) -> None:
    """Let each process evaluate rows of its own; RecBole repeats some rows so that all have equally many."""
    if dist.is_initialized():
        rows, n_rows = cast(Any, loader.batch_sampler), len(cast(Any, loader.dataset))
        rows.sampler = range(dist.get_rank(), n_rows, dist.get_world_size())


_NAMES: Counter[str] = Counter()
"""Number of uses of each name."""


def name_of_first_process(file: str) -> str:
    """Return a checkpoint name that no other run has: that of rank 0, which writes it."""
    name, ending = os.path.splitext(file)
    names = [name_of_this_process(name) + ending]
    if dist.is_initialized():
        dist.broadcast_object_list(names)
    return names[0]


def name_of_this_process(name: str) -> str:
    """Make RecBole's name, which tells only the second (utils.py:32), unique by process and count."""
    _NAMES[name] += 1
    number = f"-{_NAMES[name]}" if _NAMES[name] > 1 else ""
    return f"{name}-{os.getpid()}{number}"
