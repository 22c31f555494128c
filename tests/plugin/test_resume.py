"""A run that is interrupted and resumed ends as one that is not; which runs may go on from a checkpoint."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recbole_bert4rec import checkpoints
from recbole_bert4rec.checkpoints import OtherDataError
from recbole_bert4rec.options.table import FIXED_ON_RESUME
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import run
from tests.helpers.data import CYCLE
from tests.helpers.runs import QUIET, StopAfter
from tests.helpers.small import ROWS, equal, start, weights

EPOCHS = 6


def trained(**options: Any) -> tuple[Any, Any]:
    """A trainer after an epoch, with its checkpoint, and the loader of the test."""
    trainer, train, valid, test = start(**{"epochs": 1, **options})
    trainer.fit(train, valid, verbose=False)
    return trainer, test


@pytest.mark.parametrize(
    "more",
    [
        {"eval_args": {"mode": "pop20"}},
        {"loss_type": "sampled_softmax", "negatives": "popularity", "sparse_update": True},
    ],
    ids=str,
)
def test_a_run_that_goes_on_from_its_best_epoch_ends_as_an_uninterrupted_one(
    more: dict[str, Any], write_inter: Any
) -> None:
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "stopping_step": 100, "metric_decimal_place": 8}
    options |= {"learning_rate": 0.02, "epochs": EPOCHS, **more}
    whole = run(options=options)
    scores = [row["valid_score"] for row in whole.record["epochs"]]
    stop = next(n for n in range(2, EPOCHS - 1) if scores[n] >= max(scores[:n]))  # its checkpoint was written
    stopped = run(options=options, callbacks=[StopAfter(stop)])
    assert stopped.record["best_epoch"] == stop
    resumed = run(resume=str(stopped.checkpoint))
    assert len(resumed.record["epochs"]) == EPOCHS
    assert [row["valid"] for row in resumed.record["epochs"]] == [row["valid"] for row in whole.record["epochs"]]
    assert resumed.record["best_epoch"] == whole.record["best_epoch"]
    assert resumed.test_result == whole.test_result
    one, other = (checkpoints.read(checkpoints.last_of(result.checkpoint)) for result in (whole, resumed))
    assert equal(one["state_dict"], other["state_dict"])


def test_every_random_generator_goes_on_where_the_checkpoint_was_written(write_inter: Any) -> None:
    trainer, train, *_ = start(hidden_size=16, **write_inter(CYCLE))
    trainer.checkpoints.data["item_tokens"] = [str(token) for token in train.dataset.field2id_token["item_id"]]
    np.random.seed(7)
    random.seed(7)
    np.random.standard_normal()  # leaves half a pair behind
    random.gauss(0, 1)
    trainer._save_checkpoint(0, verbose=False)

    def draw() -> list[float]:
        of_numpy = [np.random.standard_normal(), np.random.random()]
        return [*of_numpy, random.gauss(0, 1), random.random(), torch.rand(1).item()]

    wanted = draw()
    draw()
    trainer.resume_checkpoint(trainer.saved_model_file)
    assert draw() == wanted


def test_resuming_warns_of_nothing_that_the_user_did_not_write(
    write_inter: Any, caplog: pytest.LogCaptureFixture
) -> None:
    options = {**QUIET, **write_inter(CYCLE), "hidden_size": 16, "epochs": 3}
    stopped = run(model="SASRecPlus", options=options, callbacks=[StopAfter(0)])
    with caplog.at_level("WARNING"):  # runs of earlier tests left the level at ERROR
        run(resume=str(stopped.checkpoint), options={"mask_ratio": 0.3, "epochs": 2})
    (said,) = [record.message for record in caplog.records if "no effect" in record.message]
    assert "`mask_ratio`" in said


def test_a_checkpoint_that_lacks_an_option_which_shapes_it_is_refused_by_name(options: dict) -> None:
    trainer, _ = trained(**options)
    again, *_ = start(**options, epochs=2)
    for name in {*FIXED_ON_RESUME} - {"valid_users", "warm_start"}:
        state = checkpoints.read(trainer.saved_model_file)
        del state["config"][name]
        with pytest.raises(UserError, match=rf"lacking\.pth.*{name}=None"):
            again.resume_checkpoint("lacking.pth", state)


def test_a_checkpoint_of_another_network_catalogue_or_validation_is_not_resumed(
    options: dict, write_inter: Any
) -> None:
    options["valid_users"] = 10
    trainer, _ = trained(**options)
    more = write_inter([*ROWS, ("u1", "one more", 99)], name="more")
    for change, named in (
        ({"hidden_size": 8}, r"hidden_size=16.* 8$"),
        ({"valid_users": 9}, "valid_users"),
        ({"seed": 7}, "seed"),
        (more, r"\d+ items"),
    ):
        other, *_ = start(**{**options, "epochs": 2, **change})
        with pytest.raises(UserError, match=named):
            other.resume_checkpoint(trainer.saved_model_file)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({}, None),
        ({"logit_adjustment": 30.0}, "logit_adjustment=0.0"),
        ({"exclude_seen": True}, "exclude_seen=False"),
        ({"eval_args": {"mode": "uni5"}}, "eval_args="),
    ],
    ids=str,
)
def test_a_finished_run_is_ranked_by_another_protocol_but_not_trained_on_by_it(
    change: dict[str, Any], named: str | None, options: dict
) -> None:
    trainer, _ = trained(**options)
    before = Path(trainer.saved_model_file).read_bytes()
    again, train, valid, _ = start(**{**options, **change}, epochs=1)
    again.resume_checkpoint(trainer.saved_model_file)
    assert equal(weights(trainer), weights(again))
    found = again.fit(train, valid, verbose=False)
    assert (found == (trainer.best_valid_score, trainer.best_valid_result)) == (not change)
    assert Path(trainer.saved_model_file).read_bytes() == before
    if named is not None:
        more, *_ = start(**{**options, **change}, epochs=9)
        with pytest.raises(UserError, match=f"{named}.*--epochs=1"):
            more.resume_checkpoint(trainer.saved_model_file)


def test_weights_never_meet_items_that_have_other_numbers(options: dict, write_inter: Any) -> None:
    trainer, test = trained(**options)
    trainer.evaluate(test, model_file=trainer.saved_model_file)
    file = checkpoints.read(trainer.saved_model_file)
    renumbered = write_inter(ROWS[::-1], name="renumbered")  # the same items, met in another order
    other, others_train, others_valid, others_test = start(**{**options, **renumbered}, epochs=1)
    before = weights(other)
    assert len(file["item_tokens"]) == other.model.n_items
    for meet in (
        lambda: other.evaluate(others_test, model_file=trainer.saved_model_file),
        lambda: other.resume_checkpoint(trainer.saved_model_file),
        lambda: trainer.evaluate(others_test, load_best_model=False),
        lambda: trainer.fit(others_train, others_valid),
    ):
        with pytest.raises(OtherDataError):
            meet()
    with pytest.raises(RuntimeError, match="items"):
        other.model.load_state_dict(file["state_dict"])
    assert equal(weights(other), before)
