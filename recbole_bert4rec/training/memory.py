"""Says which setting to lower if memory does not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from recbole.config import Config
from recbole.trainer import Trainer

from recbole_bert4rec.system.errors import UserError

_OF_TORCH = "can't allocate memory"
"""Part of the message of torch's error about the processor's memory, which has no type of its own."""


@contextmanager
def enough_memory(config: Config, trainer: Trainer | None = None) -> Iterator[None]:
    """Run a part of a run.

    Args:
        config: of the run.
        trainer: which trains or ranks; None while data are read and the model is built.

    Raises:
        UserError: memory does not suffice. It names the step that needs too much, and its settings.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and _OF_TORCH not in str(error):
            raise
        if trainer is None:
            cause, names = "the data and the model", ["hidden_size", "inner_size"]
        elif trainer.model.training:
            counted = "batch_sequences" if config["batch_sequences"] else "train_batch_size"
            cause, names = "a batch that is trained", [counted, "MAX_ITEM_LIST_LENGTH"]
        else:
            cause, names = "a batch that is ranked", ["eval_batch_size"]
        settings = " or ".join(f"--{name} (now {config[name]})" for name in names if config[name] is not None)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"memory does not suffice for {cause}; lower {settings} ({reason})") from error
