"""A short run of the fuzzing: every reader reads or refuses what is damaged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.attack import attack
from tests.fuzz.readers import READERS
from tests.helpers.extras import needs

SLOW = {"inter": 8, "entries": 4, "yaml": 8, "warm-start": 4, "features": 8}
"""Files of the readers that take long."""


EXTRA_OF = {"index": "ann", **dict.fromkeys((name for name in READERS if name.startswith("export-")), "onnx")}


def _marked(name: str) -> Any:
    return pytest.param(name, marks=needs(EXTRA_OF[name]) if name in EXTRA_OF else ())


@pytest.mark.parametrize("name", [*map(_marked, READERS)])
def test_a_damaged_file_is_read_or_refused_in_one_line_soon_and_runs_nothing(name: str) -> None:
    assert set(attack(name, SLOW.get(name, 40), seed=1)) <= {"read", "refused"}
