"""A short run of the stress, so that it goes on being one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stress.kills import kills

pytestmark = [pytest.mark.slow, pytest.mark.integration]


def test_a_run_that_is_killed_and_resumed_ends_as_one_left_alone(tmp_path: Path) -> None:
    assert kills(tmp_path, 2, ["--epochs=12", "--stopping_step=99"], seed=1)
