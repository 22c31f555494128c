"""A run that is interrupted and resumed ends as one that is not, among sampled candidates too."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec.training.run import run
from tests.conftest import QUIET, make_config, make_trainer, prepare
from tests.unit.test_callbacks import StopAfter

CYCLE = [(f"u{u}", f"i{(u * 5 + t) % 40}", t) for u in range(80) for t in range(6 + u % 5)]
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
    trainer.item_tokens = [str(token) for token in train.dataset.field2id_token["item_id"]]
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
