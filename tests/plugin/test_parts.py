"""Each part of the trainer by itself, without a trainer."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recbole_bert4rec.plugin.callbacks import Callback, Callbacks, StopTraining
from recbole_bert4rec.plugin.progress import Progress
from recbole_bert4rec.plugin.resuming import Generators


@pytest.mark.parametrize("batches", [[[1.0], [2.0]], [[1.0, 10.0], [2.0, 20.0]]])
def test_a_progress_goes_on_from_the_middle_of_an_epoch_and_begins_the_next(batches: list[list[float]]) -> None:
    first, second, masks = Progress(), Progress(), torch.arange(3)
    first.begin(4)
    for losses in batches:
        first.add(losses)
        first.batches += 1
    second.resume(3, first.middle(), masks)
    assert (second.epoch, second.batches, second.trained_here) == (4, 2, False)
    assert second.begin(4) is masks
    assert (second.batches, second.losses) == (2, first.losses)
    assert second.begin(5) is None
    assert (second.batches, second.losses, second.trained_here) == (0, None, True)


def test_generators_draw_again_what_they_drew() -> None:
    def drawn() -> list[float]:
        return [random.random(), np.random.random(), torch.rand(()).item()]

    model: Any = nn.Module()
    model.generator_state = None
    generators = Generators(model, torch.device("cpu"))
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
