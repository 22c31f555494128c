"""Each part of the trainer by itself, without a trainer."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec.plugin.callbacks import Callback, Callbacks, StopTraining
from recbole_bert4rec.plugin.resuming import Generators


def test_generators_draw_again_what_they_drew() -> None:
    def drawn() -> list[float]:
        return [random.random(), np.random.random(), torch.rand(()).item()]

    generators = Generators(torch.device("cpu"))
    states, before = generators.states(), drawn()
    generators.restore(states)
    assert drawn() == before


def test_all_callbacks_hear_of_an_event_before_one_of_them_ends_the_training() -> None:
    heard = []

    class Stopping(Callback):
        def on_epoch_end(self, trainer: Any, epoch: int, loss: Any) -> None:
            heard.append((epoch, loss))
            raise StopTraining

    callbacks, trainer, loader = Callbacks([Stopping(), Stopping()]), Any, Any
    with pytest.raises(StopTraining):
        callbacks.train_epoch(trainer, lambda batches: None, loader, 3)
    assert heard == [(3, None)] * 2
