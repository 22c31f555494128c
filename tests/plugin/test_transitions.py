"""Counting alone is a model of RecBole: its scores are the memory's, and nothing of it is learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from recbole.data.interaction import Interaction
from recbole.quick_start import load_data_and_model
from recbole.utils import get_trainer

from recbole_bert4rec.core.memory import FADING
from recbole_bert4rec.plugin.trainer import transitions_of
from recbole_bert4rec.training.run import run
from tests.helpers.data import CHAINS, histories_to_rows, overlapping_histories
from tests.helpers.runs import QUIET, make_config, make_trainer, prepare


def test_scores_are_what_followed_the_history_and_popularity_decides_between_equal_ones(write_inter: Any) -> None:
    _, train, *_ = prepare(make_config("Transitions", **write_inter(histories_to_rows(overlapping_histories(9)))))
    model = make_trainer(train.config, train).model
    table = torch.from_numpy(transitions_of(train._dataset).toarray())
    histories = torch.tensor([[3, 1, 4, 0, 0], [2, 7, 1, 8, 2]])
    rows = Interaction(
        {"item_id_list": histories, "item_length": torch.tensor([3, 5]), "item_id": torch.tensor([5, 9])}
    )
    scores = model.full_sort_predict(rows)
    counts = train._dataset.training_counts()
    for row, history in enumerate(([4, 1, 3], [2, 8, 1, 7, 2])):
        weights = FADING ** torch.arange(len(history))
        wanted = (weights / weights.sum()) @ table[history]
        torch.testing.assert_close(scores[row], (wanted + 1e-4 * counts / counts.max()).float(), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(model.predict(rows), scores[[0, 1], [5, 9]])


def test_a_run_ranks_what_comes_next_first_and_recbole_loads_it_and_ranks_the_same(
    write_inter: Any, tmp_path: Path
) -> None:
    options = {**QUIET, **write_inter(CHAINS), "checkpoint_dir": str(tmp_path)}
    result = run(model="Transitions", dataset=options.pop("dataset"), options=options)
    assert len(result.record["epochs"]) == 1
    assert result.test_result["hit@10"] > 0.95
    config, model, *_, test = load_data_and_model(str(result.checkpoint))  # this process saved it
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    assert trainer.evaluate(test, load_best_model=False) == result.test_result
