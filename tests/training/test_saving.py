"""A training that a signal or a kill ends goes on from its last finished epoch, to the same end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec import checkpoints
from recbole_bert4rec.plugin.callbacks import Callback, WatchedLoader
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import locked
from recbole_bert4rec.system.interrupts import Interrupted, deferred, handled, requested
from recbole_bert4rec.training.inputs import opened_checkpoint, user_layers
from recbole_bert4rec.training.run import run
from tests.helpers.runs import arguments
from tests.helpers.small import equal

CYCLE = [(f"u{u}", f"i{(u * 5 + t) % 40}", t) for u in range(60) for t in range(6 + u % 5)]
SAMPLED = {"loss_type": "sampled_softmax", "negatives": "popularity", "sparse_update": True, "n_negatives": 8}


class SignalAt(Callback):
    """Sends this process a signal when it has trained some batches of an epoch, or ranks the epoch's users."""

    def __init__(self, epoch: int, batch: int | None, number: int = signal.SIGTERM) -> None:
        self.epoch, self.batch, self.number = epoch, batch, number
        self.now = False

    def on_epoch_begin(self, trainer: Any, epoch: int, batches: Any) -> Any:
        def after(done: int) -> bool:
            if (epoch, done) == (self.epoch, self.batch):
                os.kill(os.getpid(), self.number)
            return True

        self.now = self.batch is None and epoch == self.epoch
        return WatchedLoader(batches, after)

    def on_ranking_begin(self, trainer: Any, batch: Any) -> None:
        if self.now:
            os.kill(os.getpid(), self.number)


def inputs(write_inter: Any, **more: Any) -> dict[str, Any]:
    options = {**write_inter(CYCLE), "hidden_size": 16, "stopping_step": 2, "metric_decimal_place": 8}
    options |= {"learning_rate": 0.02, "epochs": 5, "batch_sequences": 16, "hidden_dropout_prob": 0.2}
    return arguments(options, **more)


def without_seconds(epochs: list[Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if "second" not in key} for row in epochs]


def interrupted(asked: dict[str, Any], *places: tuple[int, int | None]) -> str:
    """Run, and resume, until each place was interrupted at; return the last checkpoint."""
    found = None
    for place in places:
        with handled(), pytest.raises(Interrupted, match="15") as stop:
            run(**asked, resume=found, callbacks=[SignalAt(*place)])
        found = stop.value.left_behind.rpartition("=")[2].removesuffix(" goes on")
        assert found.endswith(".last.pth")
    assert found is not None
    return found


@pytest.mark.parametrize("more", [SAMPLED | {"eval_args": {"mode": "uni20"}}, {}, {"eval_step": 2}], ids=str)
def test_a_run_that_is_interrupted_anywhere_ends_as_one_that_is_not(more: dict[str, Any], write_inter: Any) -> None:
    asked = inputs(write_inter, **more)
    whole = run(**asked)
    last = interrupted(asked, (1, 2), (1, None), (3, 1), (3, 4))
    resumed = run(resume=last)
    for one, other in ((whole.checkpoint, resumed.checkpoint), *[map(checkpoints.last_of, (whole.checkpoint, last))]):
        wanted, found = checkpoints.read(one), checkpoints.read(other)
        for changing in ("config", "callbacks"):
            del wanted[changing], found[changing]
        assert equal(wanted, found)
    assert without_seconds(resumed.record["epochs"]) == without_seconds(whole.record["epochs"])
    for key in ("best_epoch", "best_valid_result", "test_result"):
        assert resumed.record[key] == whole.record[key]
    assert resumed.record_path == Path(last.replace(".last.pth", ".json"))


def test_a_second_signal_ends_the_process_at_once() -> None:
    program = """
import os, signal
from recbole_bert4rec.system.interrupts import handled, deferred
with handled(), deferred():
    os.kill(os.getpid(), signal.SIGINT)
    print("goes on", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("not reached", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert done.stdout == "goes on\n"


def test_a_signal_ends_what_nothing_is_deferred_in_at_once() -> None:
    with handled():
        with pytest.raises(Interrupted) as stop:
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.value.number == 2
    with handled(), pytest.raises(Interrupted), deferred():
        os.kill(os.getpid(), signal.SIGINT)
        assert requested() == signal.SIGINT
    assert requested() == 0


def test_resume_without_a_file_goes_on_with_the_newest_run_that_fits(write_inter: Any) -> None:
    asked = inputs(write_inter, epochs=2)
    assert run(**asked, resume=True).record["epochs"][0]["epoch"] == 0  # there is none: a new one begins
    last = interrupted(asked, (1, 2))
    older = interrupted(asked, (1, 1))
    for file in (older, checkpoints.best_of(older)):
        os.utime(file, (1, 1))
    Path("saved/damaged.pth").write_bytes(Path(last).read_bytes()[:-1])
    Path("saved/foreign.pth").write_bytes(b"of another model")
    assert newest(**asked) == last
    unlike = {"epochs": 5, "show_progress": True, "topk": 10, "eval_args": {"order": "TO"}, "learning_rate": 0.5}
    assert newest(**{**asked, "options": {**asked["options"], **unlike}}) == last
    with pytest.raises(UserError, match="hidden_size"):
        run(**{**asked, "options": {**asked["options"], "hidden_size": 8}}, resume=True)
    with pytest.raises(UserError, match=r"SASRec$"):
        run(**asked, model="SASRec", resume=True)
    assert newest(**asked, model="SASRecPlus") is None


def newest(model: str | None = None, dataset: str | None = None, options: Any = None) -> str | None:
    """The file that a run goes on from which names none."""
    opened = opened_checkpoint(True, model, dataset, user_layers(options, (), {}))
    return opened and opened.path


def test_the_settings_of_the_optimizer_are_the_options_own(write_inter: Any) -> None:
    asked = inputs(write_inter, epochs=3)
    wanted = run(**asked)
    last = interrupted(asked, (1, 1))
    state = checkpoints.read(last)
    for group in state["optimizer"]["param_groups"]:
        group.update(betas=True, eps=None, fused=True, differentiable=True, amsgrad=True)
    checkpoints.write(last, state)
    assert run(resume=last).test_result == wanted.test_result


def test_the_last_checkpoint_goes_on_only_beside_the_best_one_and_in_one_run_at_a_time(write_inter: Any) -> None:
    asked = inputs(write_inter, epochs=4)
    last = interrupted(asked, (2, 1))
    best = Path(checkpoints.best_of(last))
    os.utime(last, (1, 1))
    assert newest(**asked) == last, "a clock that was set back loses no epoch"
    lock = best.with_name(f".{best.stem}.lock")
    with locked(lock, "run", "--checkpoint_dir", best), pytest.raises(UserError, match=best.stem):
        run(resume=last)
    content, kept = best.read_bytes(), checkpoints.read(best)
    best.unlink()
    with pytest.raises(UserError, match=best.name):
        run(resume=last)
    of_another_run = {"epoch": 99, "config": {**kept["config"], "seed": 7}}
    for other in ({"epoch": -1}, {"best_valid_score": 0.99}, of_another_run):
        checkpoints.write(best, {**kept, **other})
        with pytest.raises(UserError, match=best.name):
            run(resume=last)
    best.write_bytes(content)
    assert run(resume=last, options={"epochs": 3}).record["epochs"][-1]["epoch"] == 2
    assert not list(Path("saved").glob(".*"))
    Path(last).write_bytes(Path(last).read_bytes()[:-100])
    assert newest(**asked) == str(best)


@pytest.mark.parametrize("more", [{"epochs": 2}, {"epochs": 40, "stopping_step": 0, "learning_rate": 0.1}], ids=str)
def test_a_run_that_is_finished_or_stopped_early_is_not_trained_again(more: dict[str, Any], write_inter: Any) -> None:
    first = run(**inputs(write_inter, **more))
    again = run(resume=checkpoints.last_of(first.checkpoint))
    assert len(again.record["epochs"]) == len(first.record["epochs"]) < 40
    assert again.test_result == first.test_result
    assert again.record_path.stem.endswith("-again-1")


def test_a_killed_run_that_had_no_record_yet_gets_it_under_its_own_name_and_may_get_more_epochs(
    write_inter: Any,
) -> None:
    asked = inputs(write_inter, epochs=2)
    first = run(**asked)
    first.record_path.unlink()
    again = run(resume=checkpoints.last_of(first.checkpoint))
    assert again.record_path == first.record_path
    assert without_seconds(again.record["epochs"]) == without_seconds(first.record["epochs"])
    assert again.record["seconds"]["train"] > first.record["epochs"][-1]["at_second"]
    more = run(resume=checkpoints.last_of(first.checkpoint), options={"epochs": 3})
    assert [row["epoch"] for row in more.record["epochs"]] == [0, 1, 2]
    assert more.record_path == first.record_path


def test_other_interactions_of_the_same_items_are_not_trained_on(write_inter: Any) -> None:
    asked = inputs(write_inter, epochs=3)
    last = interrupted(asked, (1, 2))
    write_inter([(user, item, -time) for user, item, time in CYCLE])
    with pytest.raises(UserError, match="'toy'"):
        run(resume=last)
    assert run(resume=last, options={"epochs": 1}).test_result is not None


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("more", [[("u0", "i1", 99)], [("u0", "new", 99)]])
def test_resume_without_a_file_begins_anew_where_the_log_has_changed(
    finished: bool, more: list[tuple[str, str, int]], write_inter: Any
) -> None:
    asked = inputs(write_inter, epochs=2)
    before = run(**asked).checkpoint if finished else Path(checkpoints.best_of(interrupted(asked, (1, 2))))
    write_inter([*CYCLE, *more])
    again = run(**asked, resume=True)
    assert again.checkpoint != before
    assert [row["epoch"] for row in again.record["epochs"]] == [0, 1]


class Spoil(Callback):
    """Spoils the third epoch: its losses as it begins, or some weights as it ends."""

    def __init__(self, what: str, value: float) -> None:
        self.what, self.value = what, value

    def on_epoch_begin(self, trainer: Any, epoch: int, batches: Any) -> None:
        if epoch == 2 and self.what == "losses":
            calculate = trainer.model.calculate_loss
            trainer.model.calculate_loss = lambda batch: calculate(batch) * self.value

    def on_epoch_end(self, trainer: Any, epoch: int, loss: Any) -> None:
        if epoch == 2 and self.what == "weights":
            trainer.model.encoder.item_embedding.weight.data[3:9] = self.value


@pytest.mark.parametrize(
    ("what", "value", "named"),
    [
        ("losses", float("nan"), r"epoch 2, .* 0.0\d+: .* nan"),
        ("weights", float("nan"), "epoch 2, "),
        ("weights", 3e38, "epoch 2, "),
    ],
)
def test_a_training_that_diverges_ends_with_its_numbers_and_the_best_epoch_before(
    what: str, value: float, named: str, write_inter: Any
) -> None:
    with pytest.raises(UserError, match=named) as error:
        run(**inputs(write_inter, epochs=9, value_init="random"), callbacks=[Spoil(what, value)])
    (best,) = (file for file in Path("saved").glob("*.pth") if not file.name.endswith(".last.pth"))
    assert str(best) in str(error.value)
    assert checkpoints.read(best)["epoch"] in (0, 1)
