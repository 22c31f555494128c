"""A run ends with the memory that validation weighs; it is counted in training alone, and stays with the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recbole.quick_start import load_data_and_model
from recbole.utils import get_trainer
from scipy.sparse import csr_array

from recbole_bert4rec import Recommender, append_items, checkpoints, load
from recbole_bert4rec.core.memory import Memory, Validation, fit_memory
from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.plugin.trainer import transitions_of
from recbole_bert4rec.training.run import RunResult, run
from tests.helpers.data import CHAINS, inter_writer
from tests.helpers.runs import QUIET, StopAfter, make_config, prepare


def remembered(options: dict[str, Any], **more: Any) -> RunResult:
    chosen = {**QUIET, "hidden_size": 16, "memory": True, "epochs": 2, "metric_decimal_place": 8, **options}
    return run(dataset=chosen.pop("dataset"), options={**chosen, "model": "BERT4RecPlus"}, **more)


@pytest.fixture(scope="module")
def with_memory(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run on the chains, and what follows of it in a folder of its own."""
    folder = tmp_path_factory.mktemp("remembered")
    data = inter_writer(folder)(CHAINS)
    return remembered({**data, "refit": "train+valid", "checkpoint_dir": str(folder)})


def test_the_memory_of_a_run_is_validated_and_tested_with_the_model_and_a_refit_counts_it_again(
    with_memory: RunResult, write_inter: Any
) -> None:
    alone = remembered({**write_inter(CHAINS), "memory": False})
    assert with_memory.record["epochs"][-1]["valid"] == alone.record["epochs"][-1]["valid"]
    assert with_memory.best_valid_result["mrr@10"] > 2 * alone.best_valid_result["mrr@10"]
    assert with_memory.test_result["hit@10"] > 0.9 > alone.test_result["hit@10"]
    state = checkpoints.read(with_memory.checkpoint)
    assert state["best_valid_score"] == checkpoints.read(alone.checkpoint)["best_valid_score"]
    assert checkpoints.read(alone.checkpoint)["other_parameter"] == {}
    memory = state["other_parameter"]["memory"]
    assert with_memory.record["memory"] == {"weight": memory["weight"], "entries": len(memory["items"])}
    assert "memory" not in alone.record
    again = checkpoints.read(with_memory.record["refit"]["checkpoint"])["other_parameter"]["memory"]
    assert again["weight"] == memory["weight"]
    assert again["values"].sum() != memory["values"].sum()


def test_pairs_of_the_training_part_alone_are_counted(write_inter: Any) -> None:
    tables = []
    for last in ("i0", "i5"):  # of the test, and of the validation
        rows = [*CHAINS, *((f"u{u}", last, 99 + n) for u in range(60) for n in range(2))]
        _, train, *_ = prepare(make_config("BERT4RecPlus", **write_inter(rows)))
        tables.append((transitions_of(train._dataset), train._dataset.field2token_id["item_id"]))
    (first, ids), (second, other_ids) = tables
    assert ids == other_ids
    assert np.array_equal(first.toarray(), second.toarray())


class Scored(Ranker):
    """A ranker without a network, for what validation makes of its memory."""

    def __init__(self) -> None:
        super(Ranker, self).__init__()


NOTHING = csr_array((1, 1))


def test_the_weight_with_the_best_validation_are_kept_or_no_memory_at_all() -> None:
    ranker = Scored()

    def validate() -> Validation:
        memory = ranker.memory
        if memory is None:
            return least, {"ndcg@10": least}
        score = -abs(memory.weight - 2)
        return score, {"ndcg@10": score}

    least = -1.6
    alone, best = fit_memory(ranker, NOTHING, validate)
    assert (alone[0], *best) == (least, 0.0, {"ndcg@10": 0.0})
    assert ranker.memory == Memory(NOTHING, 2.0)
    least = 0.001
    alone, best = fit_memory(ranker, NOTHING, validate)
    assert alone is best
    assert ranker.memory is None


def test_a_resumed_run_has_the_memory_of_one_that_never_stopped(write_inter: Any) -> None:
    options = {**write_inter(CHAINS), "epochs": 3, "stopping_step": 100}
    whole = remembered(options)
    stopped = remembered(options, callbacks=[StopAfter(0)])
    assert checkpoints.read(stopped.checkpoint)["other_parameter"]
    resumed = run(resume=str(stopped.checkpoint))
    assert [row["valid"] for row in resumed.record["epochs"]] == [row["valid"] for row in whole.record["epochs"]]
    assert resumed.test_result == whole.test_result
    assert resumed.best_valid_result == whole.best_valid_result
    again = run(resume=str(whole.checkpoint))
    assert again.test_result == whole.test_result
    assert again.best_valid_result == whole.best_valid_result
    alone = run(resume=str(whole.checkpoint), options={"memory": False})
    assert alone.best_valid_result == whole.record["epochs"][whole.record["best_epoch"]]["valid"]
    assert "memory" not in alone.record


def test_recbole_loads_the_memory_with_the_model_whatever_the_program_was_called_with(
    with_memory: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["other", "--hidden_size=32"])
    config, network, *_, test = load_data_and_model(str(with_memory.checkpoint))
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, network)
    assert config["hidden_size"] == 16
    assert trainer.evaluate(test, load_best_model=False) == with_memory.test_result


def test_the_loaded_model_ranks_by_it_and_new_items_follow_what_their_neighbours_did(
    with_memory: RunResult, tmp_path: Path
) -> None:
    model = load(with_memory.checkpoint, "cpu")
    assert isinstance(model, Recommender)
    memory = model.ranker.memory
    assert memory is not None
    model.ranker.memory = replace(memory, weight=0.0)
    gone = model.score([["i5", "i6", "i7"]], ["i8"])["score"][0]
    model.ranker.memory = memory
    assert model.score([["i5", "i6", "i7"]], ["i8"])["score"][0] > gone
    grown = append_items(with_memory.checkpoint, {"new": ["i8"]}, output=tmp_path / "grown.pth")
    before, after = model.score([["i5"]], ["i6", "i9"]), grown.score([["i5"]], ["i6", "i9"])
    assert np.allclose(before["score"], after["score"], atol=1e-5)
    assert len(grown.recommend([["i5", "new"]], k=3)) == 3
    again = load(tmp_path / "grown.pth", "cpu")
    assert again.score([["i5", "i6", "i7"]], ["new"])["score"][0] == pytest.approx(
        again.score([["i5", "i6", "i7"]], ["i8"])["score"][0], abs=0.01
    )
    assert again.recommend([["i5", "new"]], k=1)["item_id"].tolist() == ["i9"]
    between = append_items(with_memory.checkpoint, {"new": ["i8", "i9"]}).ranker  # of which one follows the other
    assert between.memory is not None
    assert between.memory.transitions[between.n_items - 1, between.n_items - 1] == 0
