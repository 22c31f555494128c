"""A short run of the stress, so that it goes on being one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.data import CYCLE
from tests.stress.kills import kills


@pytest.mark.slow
@pytest.mark.integration
def test_a_run_that_is_killed_and_resumed_ends_as_one_left_alone(tmp_path: Path, write_inter: Any) -> None:
    log = [f"--{name}={value}" for name, value in write_inter(CYCLE).items()]
    assert kills(tmp_path / "runs", 2, [*log, "--train_batch_size=100", "--epochs=40", "--stopping_step=99"], seed=1)
