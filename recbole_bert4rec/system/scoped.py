"""Changes that end with a ``with`` block, of an attribute or the environment; and modules as another file sees them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_ABSENT = object()


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Let ``owner.name`` be ``value`` inside the block, also where there is no such attribute."""
    before = getattr(owner, name, _ABSENT)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


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
    """Everything of ``module``, with some of its names changed.

    ``replaced(recbole.trainer.trainer, "torch", StandIn(torch, load=...))`` changes what ``torch.load`` means in that
    one file of RecBole; every other user of torch, in any thread, keeps torch's own.
    """

    def __init__(self, module: ModuleType, **changed: object) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(changed)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
