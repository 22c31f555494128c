"""A module with a few names changed, to be seen by one other module only."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class StandIn(ModuleType):
    """Everything of ``module``, with some of its names changed.

    ``replaced(recbole.trainer.trainer, "torch", StandIn(torch, load=...))`` changes what ``torch.load`` means in that
    one file of RecBole; every other user of torch, in any thread, keeps torch's own.

    Args:
        module: what is stood in for.
        changed: the names with another value.
    """

    def __init__(self, module: ModuleType, **changed: Any) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(changed)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
