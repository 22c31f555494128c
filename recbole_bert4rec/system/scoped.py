"""Changes of an attribute or the environment that end with a ``with`` block; and stand-ins for modules."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Let ``owner.name`` be ``value`` inside the block, also where there is no such attribute."""
    with ExitStack() as after:
        if hasattr(owner, name):
            after.callback(setattr, owner, name, getattr(owner, name))
        else:
            after.callback(delattr, owner, name)
        setattr(owner, name, value)
        yield


@contextmanager
def restored_environment() -> Iterator[None]:
    """Put the environment variables back as they were when the block ends."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class StandIn(ModuleType):
    """A module that has everything of ``module``, with some of its names changed.

    ``replaced(recbole.trainer.trainer, "torch", StandIn(torch, load=...))`` changes what ``torch.load`` means in that
    one file of RecBole; every other user of torch, in any thread, keeps torch's own.
    """

    def __init__(self, module: ModuleType, **changed: object) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(changed)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
