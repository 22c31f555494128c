"""A run that is interrupted and resumed ends as one that is not, among sampled candidates too."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.runs import QUIET, StopAfter, make_config, make_trainer, prepare

EPOCHS = 8


@pytest.mark.parametrize("mode", ["uni20", "pop20", "full"])
def test_a_resumed_run_is_validated_and_tested_as_an_uninterrupted_one(mode: str, write_inter: Any) -> None:
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "stopping_step": 100, "metric_decimal_place": 8}
    options |= {"learning_rate": 0.02, "epochs": EPOCHS, "eval_args": {"mode": mode}}
    dataset = options.pop("dataset")
    whole = run(dataset=dataset, options=options)
    scores = [row["valid_score"] for row in whole.record["epochs"]]
    stop = next(n for n in range(2, EPOCHS - 1) if scores[n] >= max(scores[:n]))  # its checkpoint was written
    stopped = run(dataset=dataset, options=options, callbacks=[StopAfter(stop)])
    assert stopped.record["best_epoch"] == stop
    resumed = run(resume=str(stopped.checkpoint))
    assert len(resumed.record["epochs"]) == EPOCHS
    assert [row["valid"] for row in resumed.record["epochs"]] == [row["valid"] for row in whole.record["epochs"]]
    assert resumed.record["best_epoch"] == whole.record["best_epoch"]
    assert resumed.test_result == whole.test_result


def test_every_random_generator_goes_on_where_the_checkpoint_was_written(write_inter: Any) -> None:
    config = make_config(hidden_size=16, **write_inter(CYCLE))
    _, train, *_ = prepare(config)
    trainer = make_trainer(config, train)
    trainer.checkpoints.data["item_tokens"] = [str(token) for token in train.dataset.field2id_token["item_id"]]
    np.random.seed(7)
    random.seed(7)
    np.random.standard_normal()  # leaves half a pair behind
    random.gauss(0, 1)
    trainer._save_checkpoint(0, verbose=False)

    def draw() -> list[float]:
        return [
            np.random.standard_normal(),
            np.random.random(),
            random.gauss(0, 1),
            random.random(),
            torch.rand(1).item(),
        ]

    wanted = draw()
    draw()
    trainer.resume_checkpoint(trainer.saved_model_file)
    assert draw() == wanted


def test_resuming_warns_of_nothing_that_the_user_did_not_write(
    write_inter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 3}
    dataset = options.pop("dataset")
    stopped = run(model="SASRecPlus", dataset=dataset, options=options, callbacks=[StopAfter(0)])
    with caplog.at_level("WARNING"):  # runs of earlier tests left the level at ERROR
        run(resume=str(stopped.checkpoint), options={"mask_ratio": 0.3, "epochs": 2})
    (said,) = [record.message for record in caplog.records if "no effect" in record.message]
    assert "`mask_ratio`" in said
