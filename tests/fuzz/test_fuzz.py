"""A short run of the fuzzing: every reader reads or refuses what is damaged."""

from __future__ import annotations

import pytest

from tests.fuzz.attack import attack
from tests.fuzz.readers import READERS

SLOW = {"inter": 8, "yaml": 8}
"""Files of the readers that take long."""


@pytest.mark.parametrize("name", [*READERS])
def test_a_damaged_file_is_read_or_refused_in_one_line_soon_and_runs_nothing(name: str) -> None:
    assert set(attack(name, SLOW.get(name, 40), seed=1)) <= {"read", "refused"}
