"""``enable_amp: auto`` tries both formats, takes the faster one, and leaves no other trace."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.plugin import trainer
from recbole_bert4rec.plugin.precision import StepSeconds, time_steps
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.runs import QUIET, StopAfter


def options_of(write_inter: Any, **more: Any) -> dict[str, Any]:
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 3, "metrics": ["NDCG"]}
    return {**options, "valid_metric": "NDCG@10", "n_negatives": 8, "loss_type": "sampled_softmax", **more}


def weights_of(found: Any) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = checkpoint.read(checkpoint.last_of(found.checkpoint))["state_dict"]
    return weights


@pytest.mark.parametrize("amp", [False, True])
def test_a_run_that_chooses_is_the_run_that_is_told(amp: bool, write_inter: Any, monkeypatch: Any) -> None:
    told = run(options=options_of(write_inter, enable_amp=amp))
    tried = []

    def steps(step: Any, agreed: Any) -> StepSeconds:
        tried.extend([step(False), step(True)])
        return StepSeconds(1.0, 0.5 if amp else 2.0)

    monkeypatch.setattr(trainer, "time_steps", steps)
    chose = run(options=options_of(write_inter, enable_amp="auto"))
    assert len(tried) == 2
    assert chose.test_result == told.test_result
    for name, weight in weights_of(told).items():
        assert torch.equal(weight, weights_of(chose)[name]), name
    assert checkpoint.read(chose.checkpoint)["config"]["enable_amp"] is amp


def test_a_run_that_goes_on_keeps_what_was_chosen(write_inter: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(trainer, "time_steps", lambda step, agreed: StepSeconds(1.0, 0.5))
    options = options_of(write_inter, enable_amp="auto")
    whole = run(options=options)
    stopped = run(options=options, callbacks=[StopAfter(0)])

    def never(step: Any, agreed: Any) -> StepSeconds:
        raise AssertionError("tried again")

    monkeypatch.setattr(trainer, "time_steps", never)
    place = {"checkpoint_dir": str(stopped.checkpoint.parent)}
    on = run(resume=str(stopped.checkpoint), options={**QUIET, "enable_amp": "auto", **place})
    assert len(on.record["epochs"]) == 3
    assert on.test_result == whole.test_result


def test_the_faster_format_is_found_and_both_are_timed_as_often() -> None:
    calls: list[bool] = []

    def step(amp: bool) -> None:
        calls.append(amp)
        time.sleep(0.002 if amp else 0.02)

    found = time_steps(step)
    assert found.bfloat16_wins
    assert found.float32 > found.bfloat16 > 0
    assert calls.count(True) == calls.count(False) > 5


def test_a_slow_step_is_timed_once_after_the_first() -> None:
    calls: list[bool] = []

    def step(amp: bool) -> None:
        calls.append(amp)
        time.sleep(0.6)

    assert not time_steps(step).bfloat16_wins
    assert calls == [False, True, False, True]


def test_a_little_faster_is_not_enough() -> None:
    assert not StepSeconds(1.0, 0.98).bfloat16_wins
    assert StepSeconds(1.0, 0.96).bfloat16_wins


def test_recboles_models_do_not_choose(write_inter: Any) -> None:
    with pytest.raises(UserError, match="`enable_amp` must be True or False, but is 'auto'"):
        run(model="SASRec", options={**QUIET, **write_inter(CYCLE), "enable_amp": "auto"})


def test_whether_there_is_time_left_is_what_all_processes_agree_on() -> None:
    calls: list[bool] = []
    asked: list[bool] = []

    def agreed(left: bool) -> bool:
        asked.append(left)
        return len(asked) < 3

    time_steps(calls.append, agreed)
    assert asked == [True, True, True]
    assert calls == [False, True] * 4
