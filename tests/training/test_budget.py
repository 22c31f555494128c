"""Training for a given time: the epoch is cut short, validated, and the best weights are kept."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.cli.flags import seconds
from recbole_bert4rec.plugin.callbacks import Callback
from recbole_bert4rec.training.budget import NO_END, Budget
from recbole_bert4rec.training.record import Record
from tests.helpers.small import start

ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t) for u in range(1, 41) for t in range(4 + u % 12)]
SIZES = {"MAX_ITEM_LIST_LENGTH": 8, "batch_sequences": 4, "hidden_size": 16, "epochs": NO_END, "stopping_step": NO_END}


@pytest.mark.parametrize(
    ("text", "wanted"), [("90s", 90.0), ("10m", 600.0), ("1.5h", 5400.0), (" 2M ", 120.0), ("0.5s", 0.5)]
)
def test_times_are_read(text: str, wanted: float) -> None:
    assert seconds(text) == wanted


def trainer_of(model: str, write_inter: Any, *callbacks: Callback, **options: Any) -> tuple[Any, Any, Any, Any]:
    return start(*callbacks, model=model, train_batch_size=32, **{**SIZES, **options}, **write_inter(ROWS))


@pytest.mark.parametrize(("model", "eval_step"), [("BERT4Rec", 1), ("BERT4Rec", 3), ("GRU4Rec", 3)])
def test_a_training_ends_when_its_time_is_up_with_a_validated_model_and_the_learning_rate_falls(
    model: str, eval_step: int, write_inter: Any
) -> None:
    log, budget, rates = Record(), Budget(1.0), list[float]()
    log.path = Path("record.json")
    more: dict[str, Any] = {"lr_schedule": "linear", "warmup_steps": 0} if model == "BERT4Rec" else {}
    trainer, train, valid, test = trainer_of(model, write_inter, log, budget, eval_step=eval_step, **more)
    trainer.optimizer.register_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    began = time.perf_counter()
    score, result = trainer.fit(train, valid, saved=True)
    assert 1.0 <= time.perf_counter() - began < 10.0
    assert result is not None
    assert log.epochs[-1]["valid"], "the last epoch is validated"
    assert score == max(row["valid_score"] for row in log.epochs if "valid_score" in row)
    assert trainer.evaluate(test, load_best_model=True)
    if model == "BERT4Rec":
        assert rates == sorted(rates, reverse=True)
        assert rates[-1] < 0.2 * trainer.learning_rate < 0.9 * trainer.learning_rate < rates[0]


def test_however_short_the_time_a_batch_is_trained_and_validated(write_inter: Any) -> None:
    budget = Budget(1e-9)
    trainer, train, valid, test = trainer_of("BERT4Rec", write_inter, budget)
    score, result = trainer.fit(train, valid, saved=True)
    assert budget.last_epoch_share == pytest.approx(1 / len(train))
    assert result is not None
    assert score > 0
    assert trainer.evaluate(test, load_best_model=True)


def test_a_training_that_goes_on_has_the_seconds_that_are_left(write_inter: Any) -> None:
    before, now = Budget(60.0), Budget(90.0)
    trainer, *_ = trainer_of("BERT4Rec", write_inter)
    before.on_train_begin(trainer)
    now.restore({**before.state(), "spent": 50.0})
    now.on_train_begin(trainer)
    assert now.left == pytest.approx(40.0, abs=1.0)
    assert now.state()["spent"] == pytest.approx(50.0, abs=1.0)


@pytest.mark.parametrize("seconds", [0.2, 60.0])
def test_half_an_epoch_of_pop_is_no_model_and_one_that_ends_sooner_is_left_alone(
    seconds: float, write_inter: Any
) -> None:
    budget = Budget(seconds)
    trainer, train, valid, _ = trainer_of("Pop", write_inter, budget)
    calculate, seen = trainer.model.calculate_loss, []

    def slow(batch: Any) -> Any:
        seen.extend([0] * len(batch))
        time.sleep(0.03)
        return calculate(batch)

    trainer.model.calculate_loss = slow
    score, _ = trainer.fit(train, valid, saved=False)
    assert (budget.left <= 0) == (seconds < len(train) * 0.03), "the time is up inside the epoch"
    assert len(seen) == len(train.dataset)
    assert budget.last_epoch_share == 1.0
    assert score > 0


@pytest.mark.parametrize("text", ["", "10", "0m", "1m30s", "inf"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="90s"):
        seconds(text)
