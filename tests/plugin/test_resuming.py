"""Checkpoints: what they hold, and which runs may go on from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.checkpoints.checkpoint import OtherDataError
from recbole_bert4rec.options.table import FIXED_ON_RESUME
from recbole_bert4rec.system.errors import UserError
from tests.helpers.small import ROWS, equal, start, weights


@pytest.mark.parametrize(
    "more",
    [{}, {"loss_type": "sampled_softmax", "negatives": "popularity", "sparse_update": True}],
    ids=str,
)
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(options: dict, more: dict) -> None:
    options = {**options, **more}
    whole, train, valid, _ = start(**options, epochs=6, stopping_step=100)
    whole.fit(train, valid, verbose=False, saved=False)

    first, train, valid, _ = start(**options, epochs=6, stopping_step=100)
    for epoch in range(3):
        first._train_epoch(train, epoch)
        first._valid_epoch(valid)
    first.checkpoints.data = whole.checkpoints.data  # fit takes them from the data
    first._save_checkpoint(2, verbose=False)
    torch.rand(1000)  # whatever happened in between
    second, train, valid, _ = start(**options, epochs=6, stopping_step=100)
    second.resume_checkpoint(first.saved_model_file)
    assert second.start_epoch == 3
    second.fit(train, valid, verbose=False, saved=False)
    assert equal(weights(whole), weights(second))


@pytest.mark.parametrize(("epochs", "warns"), [(2, True), (4, False), (6, False)])
def test_a_resumed_run_compares_the_warm_up_with_the_steps_of_all_its_epochs(
    epochs: int, warns: bool, options: dict, caplog: pytest.LogCaptureFixture
) -> None:
    _, train, *_ = start(**options, epochs=1)
    options["warmup_steps"] = 4 * len(train)
    first, train, valid, _ = start(**options, epochs=1)
    first.fit(train, valid, verbose=False)
    second, train, valid, _ = start(**options, epochs=epochs)
    second.resume_checkpoint(first.saved_model_file)
    with caplog.at_level("WARNING"):
        second.fit(train, valid, saved=False)
    assert ("than warmup_steps" in caplog.text) == warns


def test_a_checkpoint_that_lacks_an_option_which_shapes_it_is_refused_by_name(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    trainer.fit(train, valid, verbose=False)
    again, *_ = start(**options, epochs=2)
    for name in {*FIXED_ON_RESUME} - {"valid_users", "warm_start"}:
        state = checkpoint.read(trainer.saved_model_file)
        del state["config"][name]
        checkpoint.write("lacking.pth", state)
        with pytest.raises(UserError, match=rf"lacking\.pth.*{name}=None"):
            again.resume_checkpoint("lacking.pth")


def test_resuming_a_finished_run_leaves_its_checkpoint_alone(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    done = trainer.fit(train, valid, verbose=False)
    before = Path(trainer.saved_model_file).read_bytes()
    again, train, valid, _ = start(**options, epochs=1)
    again.resume_checkpoint(trainer.saved_model_file)
    assert again.fit(train, valid, verbose=False) == done
    assert Path(trainer.saved_model_file).read_bytes() == before


def test_a_checkpoint_of_another_network_or_catalogue_is_not_resumed(options: dict, write_inter: Any) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    trainer.fit(train, valid, verbose=False)
    other, *_ = start(**{**options, "hidden_size": 8})
    with pytest.raises(UserError, match=r"hidden_size=16.* 8$"):
        other.resume_checkpoint(trainer.saved_model_file)
    more = write_inter([*ROWS, ("u1", "one more", 99)], name="more")
    other, *_ = start(**{**options, **more})
    with pytest.raises(UserError, match=r"\d+ items"):
        other.resume_checkpoint(trainer.saved_model_file)


def test_a_checkpoint_is_ranked_by_another_protocol_but_not_trained_on_by_it(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=2)
    trainer.fit(train, valid, verbose=False)
    before = Path(trainer.saved_model_file).read_bytes()
    for changed, named in (
        ({"logit_adjustment": 1.0}, "logit_adjustment=0.0"),
        ({"exclude_seen": True}, "exclude_seen=False"),
        ({"eval_args": {"mode": "uni5"}}, "eval_args="),
    ):
        other, *_ = start(**{**options, **changed}, epochs=9)
        with pytest.raises(UserError, match=f"{named}.*--epochs=1"):
            other.resume_checkpoint(trainer.saved_model_file)
        other, *_ = start(**{**options, **changed}, epochs=1)
        other.resume_checkpoint(trainer.saved_model_file)
    assert Path(trainer.saved_model_file).read_bytes() == before


def test_the_logit_adjustment_may_be_chosen_when_a_checkpoint_is_ranked(options: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1)
    trainer.fit(train, valid, show_progress=False)
    again, train, valid, _ = start(**options, epochs=1, logit_adjustment=30.0)
    again.resume_checkpoint(trainer.saved_model_file)
    assert equal(weights(trainer), weights(again))
    score, result = again.fit(train, valid, show_progress=False)
    assert result == again.evaluate(valid, load_best_model=False)
    assert score != trainer.best_valid_score


@pytest.mark.parametrize("change", [{"valid_users": 9}, {"valid_users": 10, "seed": 7}], ids=str)
def test_what_was_trained_is_not_validated_on_after_resuming(options: dict, change: dict) -> None:
    trainer, train, valid, _ = start(**options, epochs=1, valid_users=10)
    trainer.fit(train, valid, show_progress=False)
    again, *_ = start(**{**options, "epochs": 2, "valid_users": 10, **change})
    with pytest.raises(UserError, match=r"valid_users|seed"):
        again.resume_checkpoint(trainer.saved_model_file)


def test_an_untrained_model_is_kept_and_read_again(options: dict) -> None:
    trainer, train, valid, test = start(**options, epochs=0)
    trainer.fit(train, valid, verbose=False)
    assert checkpoint.read(trainer.saved_model_file)["epoch"] == -1
    assert trainer.evaluate(test) == trainer.evaluate(test, load_best_model=False)


def test_weights_never_meet_items_that_have_other_numbers(options: dict, write_inter: Any) -> None:
    trainer, train, valid, test = start(**options, epochs=1)
    trainer.fit(train, valid, verbose=False)
    trainer.evaluate(test, model_file=trainer.saved_model_file)
    file = checkpoint.read(trainer.saved_model_file)
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
