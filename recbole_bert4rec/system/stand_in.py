"""Stand-ins for modules."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class StandIn(ModuleType):
    """A module that has everything of ``module``, with some of its names changed.

    ``patch.object(recbole.trainer.trainer, "torch", StandIn(torch, load=...))`` changes what ``torch.load`` means in
    that one file of RecBole; every other user of torch, in any thread, keeps torch's own.
    """

    def __init__(self, module: ModuleType, **changed: object) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(changed)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
