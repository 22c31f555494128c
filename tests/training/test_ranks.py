"""The ranks of the test targets: a user each, and metrics made from them are those of the run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recbole_bert4rec.training.run import run
from tests.helpers.small import ROWS, SMALL

LONG_ENOUGH = [row for row in ROWS if int(row[0][1:]) % 12]
"""Histories of four items and more, so that each user is tested."""
ARGUMENTS = "{'split': {'LS': 'valid_and_test'}, 'order': 'TO', 'group_by': 'user', 'mode': 'full'}"
COLUMNS = "{'inter': ['user_id', 'item_id', 'timestamp']}"


def ranks_of(
    model: str, deep: int, write_inter: Any, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Ranks and record of a run of one epoch."""
    options = {**SMALL, **write_inter(LONG_ENOUGH), "epochs": 1, "use_gpu": False, "show_progress": False}
    options |= {"topk": f"[1,{deep}]", "metrics": "['Hit','NDCG','MRR']", "valid_metric": f"NDCG@{deep}"}
    options |= {"metric_decimal_place": 8, "eval_batch_size": 7, "eval_args": ARGUMENTS, "load_col": COLUMNS}
    flags = [f"--{key}={value}" for key, value in {**options, **more}.items()]
    monkeypatch.setattr(sys, "argv", ["run.py", *flags])
    run(model=model, dataset="toy", ranks="ranks.parquet")
    (path,) = Path("saved").glob("*.json")
    return pd.read_parquet("ranks.parquet"), json.loads(path.read_text())


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
def test_every_user_has_the_rank_of_the_last_item_and_the_metrics_follow_from_the_ranks(
    model: str, write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, record = ranks_of(model, 18, write_inter, monkeypatch)
    last = {user: item for user, item, _ in LONG_ENOUGH}
    assert dict(zip(ranks["user"], ranks["target"], strict=True)) == last
    assert len(ranks) == len(last)
    for k in (1, 18):
        hit = (ranks["rank"] > 0) & (ranks["rank"] <= k)
        place = ranks["rank"].where(hit, np.inf)
        for name, gain in (("hit", hit), ("mrr", 1 / place), ("ndcg", hit / np.log2(place + 1))):
            assert record["test_result"][f"{name}@{k}"] == pytest.approx(gain.fillna(0).mean(), abs=1e-6)
