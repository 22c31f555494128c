"""What processes that train together must agree on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
import torch.distributed as dist
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import Trainer
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.nn.sharding import Shard

if TYPE_CHECKING:
    from recbole_bert4rec.plugin.model import BERT4Rec

Value = TypeVar("Value")


def rank_of(config: Config) -> int:
    """Return the number of this process among all that train together, on whatever machine; 0 where it is alone."""
    return 0 if config["single_spec"] else int(config["local_rank"] + (config["offset"] or 0))


def place_of(config: Config) -> tuple[int, int]:
    """Return the number of this process, and how many train together."""
    return rank_of(config), 1 if config["single_spec"] else int(config["world_size"])


def shard_of(config: Config, n_items: int) -> Shard | None:
    """Return the items that this process holds; None, for all, without ``shard_items``.

    Args:
        config: of the run.
        n_items: N, padding counted.

    Raises:
        UserError: there are too few items for so many processes.
    """
    if not config["shard_items"]:
        return None
    rank, world = place_of(config)
    if n_items < 2 * world * world:  # then each process has an item
        raise UserError(
            f"`shard_items` is for huge catalogues: {n_items - 1} items are too few for {world} processes; leave it out"
        )
    return Shard(n_items, rank, world, config["seed"])


def of_all_labels(loss: Tensor, count: int) -> Tensor:
    """Weigh a mean loss so that the mean over processes is the mean over the labels of all of them.

    DistributedDataParallel takes the mean of the gradients, whose labels are not equally many.

    Args:
        loss: the mean over this process's labels, or the weights of such a mean. *Shape:* any
        count: of these labels.
    """
    if not dist.is_initialized():
        return loss
    total = torch.tensor(float(count), device=loss.device)
    dist.all_reduce(total)
    return loss * (count * dist.get_world_size() / total)


def mean_of_all(values: list[float], device: torch.device) -> list[float]:
    """Return the means of numbers over processes."""
    numbers = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(numbers)
    return [float(number) for number in numbers / dist.get_world_size()]


def n_parameters(model: nn.Module) -> int:
    """Return the number of weights of any model, those of items that other processes hold among them."""
    here = sum(weight.numel() for weight in model.parameters())
    shard: Shard | None = getattr(model, "shard", None)
    if shard is None:
        return here
    whole = cast("BERT4Rec", model)
    return here + (whole.n_items - shard.n_items) * (1 + whole.encoder.options.hidden_size)


def anywhere(flag: bool) -> bool:
    """Return whether something is so in any process."""
    if not dist.is_initialized():
        return flag
    found = torch.tensor(flag)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return bool(found)


def of_the_first(value: Value) -> Value:
    """Return what the first process has."""
    values = [value]
    if dist.is_initialized():
        dist.broadcast_object_list(values)
    return values[0]


def gathered(values: Tensor) -> list[Tensor]:
    """Return every process's tensor, which may differ in their first dimension."""
    found: list[Tensor] = [values] * dist.get_world_size()
    dist.all_gather_object(found, values)
    return found


def share_rows(loader: AbstractDataLoader, items_are_shared: bool) -> None:
    """Let each process evaluate other rows; RecBole has some evaluated twice, so that all have equally many.

    With ``shard_items`` each process ranks its own items for all rows.
    """
    if dist.is_initialized():
        rows, n_rows = cast(Any, loader.batch_sampler), len(cast(Any, loader.dataset))
        rows.sampler = range(n_rows) if items_are_shared else range(dist.get_rank(), n_rows, dist.get_world_size())


def keep_shares_apart(model: BERT4Rec) -> None:
    """Have DistributedDataParallel leave alone what is another in each process."""
    if shared := model.shared_weights():
        # torch has no public way, and FSDP and TorchRec take this one
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, [*shared, "adjustment"])


def share_checkpoint_name(trainer: Trainer) -> None:
    """Every rank names its checkpoint by the second, but only rank 0 writes one: let all use that name."""
    trainer.saved_model_file = of_the_first(trainer.saved_model_file)
