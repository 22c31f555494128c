"""Follows a file: when another one takes its place, what was made of it is made anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from logging import getLogger
from typing import Generic, TypeVar

T = TypeVar("T")
_SECONDS = 0.5
"""Between two looks at the files."""


class Followed(Generic[T]):
    """What was last made of a file.

    Args:
        path: of the file.
        make: makes it of the file as it is now.
        observe: is told of each later load whether it went well.

    Attributes:
        current: what was made. It is replaced, never changed, so whoever took it may go on with it.
        loaded: when it was made, in UTC.
        loads: how often it was made.
        failure: why the file as it is now could not be made, or None.
        asked: to make it anew though the file looks the same; a signal may set it.
    """

    def __init__(self, path: str, make: Callable[[], T], observe: Callable[[bool], None] = lambda _: None) -> None:
        self.path, self._make, self._observe = path, make, observe
        self.asked = False
        self._seen = self._look()
        self.current = make()
        self.loaded, self.loads = datetime.now(timezone.utc), 1
        self.failure: str | None = None

    def update(self) -> None:
        """Make it anew where the file has changed; keep what there is where that fails."""
        seen = self._look()
        if seen is None and self.asked:
            self.asked = False
            self._fail("there is no such file")
        if seen is None or (seen == self._seen and not self.asked):
            return
        self._seen, self.asked = seen, False
        try:
            self.current = self._make()
        except Exception as error:  # whatever is wrong with the file, the service goes on
            self._fail(str(error))
            return
        self.failure = None
        self.loaded, self.loads = datetime.now(timezone.utc), self.loads + 1
        getLogger(__name__).warning("%s was loaded anew", self.path)
        self._observe(True)

    def _fail(self, why: str) -> None:
        self.failure = why
        getLogger(__name__).warning("%s cannot be loaded, so the one before stays: %s", self.path, why)
        self._observe(False)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self.path)
        except OSError:  # being replaced
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def follow(files: Sequence[Followed[T]]) -> threading.Event:
    """Look at files in a thread.

    Returns:
        An event that ends it.
    """
    end = threading.Event()

    def look() -> None:
        while not end.wait(_SECONDS):
            for one in files:
                one.update()

    threading.Thread(target=look, name="reload", daemon=True).start()
    return end
