"""Each part of the trainer by itself, without a trainer."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recbole_bert4rec.plugin.callbacks import Callback, Callbacks, StopTraining
from recbole_bert4rec.plugin.faults import Faults
from recbole_bert4rec.plugin.progress import Progress
from recbole_bert4rec.plugin.resuming import Generators
from recbole_bert4rec.system.errors import UserError


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


def faults_of(model: nn.Module, best_file: str | None = None) -> Faults:
    progress = Progress()
    progress.begin(7)
    return Faults(model, torch.optim.SGD(model.parameters(), lr=0.5), progress, lambda: best_file)


@pytest.mark.parametrize(("best_file", "kept"), [(None, "no epoch was kept"), ("a.pth", "a.pth holds the best epoch")])
def test_faults_name_the_epoch_the_rate_and_the_file_that_is_kept(best_file: str | None, kept: str) -> None:
    model = nn.Linear(2, 2)
    faults = faults_of(model, best_file)
    faults.check_weights()
    nn.init.constant_(model.bias, float("nan"))
    with pytest.raises(UserError, match=f"in epoch 7, at a learning rate of 0.5: the weights bias are not.*{kept}"):
        faults.check_weights()


def test_a_trained_batch_ends_a_row_of_faults() -> None:
    faults = faults_of(nn.Linear(2, 2))
    for _ in range(200):
        faults.skip([1.0], float("inf"), ["u1"])
        faults.trained()
    assert faults.skipped_steps == 200
    with pytest.raises(UserError, match="batches in a row have no finite gradient"):
        for _ in range(200):
            faults.skip([1.0], float("inf"), ["u1"])


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
