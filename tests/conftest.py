"""Fixtures: a working folder of its own for each test, configurations, and atomic files made on the spot."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import recbole_bert4rec  # noqa: F401  registers BERT4Rec
from recbole_bert4rec.core.encoder import BERT4RecEncoder
from recbole_bert4rec.plugin.hooks import in_program
from tests.helpers.data import inter_writer
from tests.helpers.small import ROWS, SMALL

torch.set_num_threads(1)  # the models of these tests are too small to share out
_program = in_program()
_program.__enter__()  # as in our programs


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """RecBole writes saved/, log/ and log_tensorboard/ where it runs, reads the command line, and logs to the root."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py"])
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    asked = logging.getLogger("recbole_bert4rec.recommend")  # whose warnings the service turns off
    warns = asked.level
    yield
    asked.setLevel(warns)
    for handler in set(root.handlers) - set(handlers):  # RecBole's functions leave theirs
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.fixture
def write_inter(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Write NAME/NAME.inter; returns the options that load it."""
    return inter_writer(tmp_path)


@pytest.fixture
def options(write_inter: Any) -> dict[str, Any]:
    """Options that load the small log into a small model."""
    return {**SMALL, **write_inter(ROWS)}


@pytest.fixture
def seen_in_training(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], bool]], set[bool]]:
    """Collect the answers to a question that is asked whenever an encoder trains."""

    def collected(question: Callable[[], bool]) -> set[bool]:
        seen: set[bool] = set()
        forward = BERT4RecEncoder.forward

        def watched(self: BERT4RecEncoder, *args: Any, **named: Any) -> Any:
            if self.training:
                seen.add(question())
            return forward(self, *args, **named)

        monkeypatch.setattr(BERT4RecEncoder, "forward", watched)
        return seen

    return collected
