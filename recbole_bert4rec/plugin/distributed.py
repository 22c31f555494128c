"""What processes that train together must agree on."""

from __future__ import annotations

import torch
from recbole.trainer import Trainer


def share_checkpoint_name(trainer: Trainer) -> None:
    """Every rank names its checkpoint by the second, but only rank 0 writes one: let all use that name."""
    if torch.distributed.is_initialized():
        names = [trainer.saved_model_file]
        torch.distributed.broadcast_object_list(names)
        trainer.saved_model_file = names[0]
