"""Changes that last as long as a ``with`` block: an attribute, a variable of the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Let ``owner.name`` be ``value`` inside the block.

    Args:
        owner: a module, class or object that has the attribute itself.
        name: of the attribute.
        value: what stands there until the block ends, however it ends.
    """
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
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
