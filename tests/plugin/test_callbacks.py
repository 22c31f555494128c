"""Callbacks: called in the documented order for every model, and able to change and to end a training."""

from __future__ import annotations

from typing import Any

import pytest
from recbole.trainer import Trainer
from recbole.trainer.trainer import DecisionTreeTrainer

from recbole_bert4rec.plugin.callbacks import Callback, EvalBatch, RankedBatch, WatchedLoader, observed
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import run
from tests.helpers.runs import QUIET, StopAfter, make_config, make_trainer, prepare
from tests.helpers.small import ROWS

SMALL = {**QUIET, "MAX_ITEM_LIST_LENGTH": 8, "hidden_size": 16, "train_batch_size": 16, "batch_sequences": 16}
SMALL |= {"stopping_step": 50, "eval_batch_size": 4096}
EVENTS = [name for name in vars(Callback) if name.startswith("on_")]
ONE_EPOCH = ["on_epoch_begin", "on_epoch_end", "on_validation_begin", "on_ranking_begin", "on_ranking_end"]
ONE_EPOCH += ["on_validation_end", "on_selection_end"]
TEST = ["on_test_begin", "on_ranking_begin", "on_ranking_end", "on_test_end"]


class Recorder(Callback):
    """Notes the name and the arguments of every event."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.arguments: dict[str, tuple[Any, ...]] = {}

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def note(trainer: Any, *arguments: Any) -> None:
            assert isinstance(trainer, Trainer)
            self.events.append(name)
            self.arguments[name] = arguments

        return note


@pytest.fixture
def small(write_inter: Any) -> dict[str, Any]:
    return {**SMALL, **write_inter(ROWS)}


@pytest.mark.parametrize(
    ("model", "mode"), [("BERT4Rec", "full"), ("BERT4Rec", "uni5"), ("SASRec", "uni5"), ("Pop", "full")]
)
def test_a_run_calls_every_event_in_the_documented_order(model: str, mode: str, small: dict[str, Any]) -> None:
    seen = Recorder()
    evaluation = {"mode": mode, "order": "TO", "group_by": "user", "split": {"LS": "valid_and_test"}}
    columns = {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
    result = run(model=model, options={**small, "epochs": 2, "eval_args": evaluation, **columns}, callbacks=[seen])
    epochs = len(result.record["epochs"])
    assert epochs == (1 if model == "Pop" else 2)
    assert seen.events == ["on_train_begin", *ONE_EPOCH * epochs, "on_train_end", *TEST]
    assert set(seen.events) == set(EVENTS)
    assert seen.arguments["on_epoch_end"][0] == seen.arguments["on_validation_begin"][0] == epochs - 1
    assert seen.arguments["on_selection_end"] == seen.arguments["on_validation_end"][:2]
    assert seen.arguments["on_train_end"] == (result.best_valid_score, result.best_valid_result)
    assert seen.arguments["on_test_end"] == (result.test_result,)
    (batch,) = seen.arguments["on_ranking_begin"]
    (ranked,) = seen.arguments["on_ranking_end"]
    assert isinstance(batch, EvalBatch)
    assert isinstance(ranked, RankedBatch)
    assert len(batch.targets) == len(ranked.targets) == 30


@pytest.mark.parametrize("model", ["BERT4Rec", "GRU4Rec"])
def test_a_callback_of_the_user_ends_training_and_the_run_goes_on_to_its_test(model: str, small: Any) -> None:
    before, after = Recorder(), Recorder()
    result = run(model=model, options={**small, "epochs": 50}, callbacks=[before, StopAfter(2), after])
    assert [row["epoch"] for row in result.record["epochs"]] == [0, 1, 2]
    assert result.best_valid_score == max(row["valid_score"] for row in result.record["epochs"])
    assert result.test_result
    assert result.checkpoint.is_file()
    assert before.events == after.events == ["on_train_begin", *ONE_EPOCH * 3, "on_train_end", *TEST]


def test_an_epoch_that_is_left_out_by_eval_step_or_stopped_before_is_not_validated(small: dict[str, Any]) -> None:
    seen, stop = Recorder(), StopAfter(3, "on_epoch_end")
    result = run(options={**small, "epochs": 50, "eval_step": 2}, callbacks=[seen, stop])
    one_epoch = [*ONE_EPOCH[:2], *ONE_EPOCH]
    assert seen.events == ["on_train_begin", *one_epoch, *ONE_EPOCH[:2], *ONE_EPOCH[:2], "on_train_end", *TEST]
    assert [("valid" in row) for row in result.record["epochs"]] == [False, True, False, False]
    assert result.record["best_epoch"] == 1


class Broken(Callback):
    def on_epoch_end(self, trainer: Any, epoch: int, loss: Any) -> None:
        raise ZeroDivisionError("mine")


def test_a_stop_without_a_model_to_keep_and_any_other_error_end_the_run(small: dict[str, Any]) -> None:
    for model, callback, error, named in (
        ("BERT4Rec", StopAfter(0, "on_epoch_end"), UserError, "epoch"),
        ("GRU4Rec", StopAfter(0, "on_epoch_end"), UserError, "epoch"),
        ("BERT4Rec", Broken(), ZeroDivisionError, "mine"),
    ):
        with pytest.raises(error, match=named):
            run(model=model, options=small, callbacks=[callback])
    with pytest.raises(UserError, match="DecisionTreeTrainer"):
        observed(DecisionTreeTrainer)  # which has no epochs


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec"])
def test_a_callback_may_change_the_batches_and_the_scores(model: str, small: dict[str, Any]) -> None:
    class Changing(Callback):
        def on_epoch_begin(self, trainer: Any, epoch: int, batches: Any) -> Any:
            return WatchedLoader(batches, lambda done: False)  # the first batch alone

        def on_ranking_begin(self, trainer: Any, batch: EvalBatch) -> EvalBatch:
            return EvalBatch(batch.interaction, None, batch.target_rows, batch.targets)

        def on_ranking_end(self, trainer: Any, ranked: RankedBatch) -> RankedBatch:
            scores = ranked.scores.clone()
            scores[ranked.target_rows, ranked.targets] = 1e9
            return ranked._replace(scores=scores)

    calls = []
    metrics = {"metrics": ["GAUC", "MRR"], "topk": [10], "valid_metric": "MRR@10"}
    config = make_config(model, epochs=1, **metrics, **small)
    _, train, valid, _ = prepare(config)
    trainer = make_trainer(config, train, Changing())
    calculate = trainer.model.calculate_loss
    trainer.model.calculate_loss = lambda batch: calls.append(1) or calculate(batch)
    score, _ = trainer.fit(train, valid, verbose=False, saved=False)
    assert len(train) > 1 == len(calls)
    assert score == 1.0


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"callbacks": [Callback]}, "`callbacks`"),
        ({"callbacks": Callback()}, "`callbacks`"),
        ({"config_files": "protocol-paper.yaml"}, "`config_files`"),
        ({"config_files": ["protocol-papr.yaml"]}, "protocol-paper.yaml"),
    ],
)
def test_what_is_no_list_or_no_callback_is_refused_before_anything_is_read(given: dict[str, Any], named: str) -> None:
    with pytest.raises(UserError, match=named):
        run(**given)
