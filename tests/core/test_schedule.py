"""The learning rate over the steps: warm-up, then constant, linear or cosine."""

from __future__ import annotations

import pytest

from tests.helpers.small import start


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        ("constant", [0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 0.8, 0.6]),
        ("cosine", [0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 0.904508, 0.654508]),
    ],
)
def test_the_learning_rate_warms_up_then_follows_its_schedule(
    options: dict, schedule: str, wanted: list[float]
) -> None:
    trainer, *_ = start(**options, lr_schedule=schedule, learning_rate=1.0)
    trainer.rate.total_steps = 55
    assert [trainer.rate.at(step) for step in (0, 1, 2, 3, 4, 5, 15, 25)] == pytest.approx(wanted, abs=1e-6)
    if schedule != "constant":
        assert trainer.rate.at(55) == pytest.approx(0.0)


def test_the_warm_up_takes_a_tenth_of_a_short_run_at_most(options: dict) -> None:
    trainer, *_ = start(**{**options, "warmup_steps": 200}, learning_rate=1.0)
    trainer.rate.total_steps = 40
    assert [trainer.rate.at(step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert trainer.rate.at(39) < 0.01


def test_the_optimizer_takes_the_scheduled_rate_and_ends_near_zero(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=4)
    trainer.fit(train, valid, verbose=False, saved=False)
    steps = 4 * len(train)
    assert trainer.step_count == steps
    assert {group["lr"] for group in trainer.optimizer.param_groups} == {trainer.rate.at(steps - 1)}
    assert 0 < trainer.rate.at(steps - 1) < 0.02 * trainer.learning_rate
