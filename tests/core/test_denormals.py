"""Denormal numbers are zero in a run, and no longer in its thread when it is over."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from recbole_bert4rec.core.fast.denormals import are_zero, denormals_as_zero
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.runs import QUIET

pytestmark = pytest.mark.skipif(not torch.set_flush_denormal(False), reason="the processor cannot")


def test_denormals_are_zero_inside_the_block_alone_which_ends_with_an_error_too() -> None:
    assert not are_zero()
    with denormals_as_zero():
        assert are_zero()
        with denormals_as_zero():
            assert are_zero()
        assert are_zero()
    assert not are_zero()
    with pytest.raises(KeyError), denormals_as_zero():
        raise KeyError
    assert not are_zero()


def test_a_run_takes_them_as_zero_in_training(write_inter: Any, seen_in_training: Any) -> None:
    seen = seen_in_training(are_zero)
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 1}
    run(dataset=options.pop("dataset"), options=options)
    assert seen == {True}
    assert not are_zero()


_PROGRAM = """
import numpy as np
import torch
from recbole_bert4rec.core.fast.denormals import denormals_as_zero
torch.set_num_threads(2)
small = torch.tensor([1e-30])
with denormals_as_zero():
    said = str(np.finfo(np.float64))
    products = small.expand(4_000_000).clone() * 1e-10
print(float(np.finfo(np.float64).smallest_subnormal), int(products.count_nonzero()))
"""


def test_threads_that_begin_inside_the_block_do_too_and_numpy_knows_its_smallest_number_there() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["5e-324", "0"]
