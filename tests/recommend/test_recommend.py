"""A run recommends as its checkpoint does, about items of the history too."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from recbole_bert4rec import load
from recbole_bert4rec.training.run import run
from tests.helpers.data import histories_to_rows, overlapping_histories
from tests.helpers.runs import QUIET

SMALL = {"hidden_size": 16, "inner_size": 32, "MAX_ITEM_LIST_LENGTH": 5, "eval_batch_size": 7}


@pytest.mark.parametrize(("exclude_seen", "seen_bias"), [(False, False), (False, True), (True, False)])
def test_a_run_recommends_as_its_checkpoint_does(exclude_seen: bool, seen_bias: bool, write_inter: Any) -> None:
    histories = overlapping_histories(25)
    options = {**QUIET, **SMALL, "epochs": 1, "exclude_seen": exclude_seen, "seen_bias": seen_bias}
    options |= {"keep_histories": True, **write_inter(histories_to_rows(histories))}
    result = run(dataset=options.pop("dataset"), options=options, recommend="top.csv", k=4)
    table, model = pd.read_csv("top.csv"), load(result.checkpoint, device="cpu")
    pd.testing.assert_frame_equal(table, model.recommend(k=4), check_dtype=False, rtol=1e-5)
    again = [row for row in table.itertuples() if row.item_id in histories[row.user_id]]
    assert bool(again) is not model.viewed.left_out
