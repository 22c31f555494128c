"""Where memory does not suffice, a run ends in one line that names the setting to lower."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from tests.helpers.programs import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.integration]

LARGE_RANKED_BATCH = ["--eval_batch_size=943", "--MAX_ITEM_LIST_LENGTH=200", "--train_batch_size=200"]
"""It takes far more memory than a batch that is trained."""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--inner_size=4000000"],
            "the data and the model; lower --hidden_size (now 64) or --inner_size (now 4000000)",
        ),
        (
            ["--model=SASRec", "--train_batch_size=100000", "--train_neg_sample_args=None"],
            "a batch that is trained; lower --train_batch_size (now 100000) or --MAX_ITEM_LIST_LENGTH (now 50)",
        ),
        (
            ["--train_batch_size=5000000", "--MAX_ITEM_LIST_LENGTH=200", "--hidden_size=1024"],
            "a batch that is trained; lower --train_batch_size (now 5000000) or --MAX_ITEM_LIST_LENGTH (now 200)",
        ),
        (
            [*LARGE_RANKED_BATCH, "--inner_size=12000", "--hidden_size=8", "--n_heads=1"],
            "a batch that is ranked; lower --eval_batch_size (now 943)",
        ),
    ],
)
def test_too_little_memory_is_one_line_that_names_the_setting(flags: list[str], message: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (3 << 30, 3 << 30))

    flags = ["--epochs=1", "--show_progress=False", *flags]
    command = [sys.executable, str(ROOT / "run.py"), *flags]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # each takes memory as it starts
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, preexec_fn=limit, env=one_thread)
    assert done.returncode == 2, done.stderr
    error = done.stderr[done.stderr.rindex("error: ") :]
    assert error.startswith("error: memory does not suffice for " + message)
    assert "allocate" in error
    assert len(error.splitlines()) == 1
    assert "Traceback" not in done.stderr
