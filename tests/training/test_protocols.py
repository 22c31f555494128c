"""`protocols` and `ranks`: the selected weights tested as a run under each protocol would test them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from recbole_bert4rec.training.record import read_record
from recbole_bert4rec.training.run import run
from tests.helpers.runs import arguments

ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t) for u in range(1, 31) for t in range(4 + u % 10)]
SPLIT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}
ONE_EPOCH = {"hidden_size": 8, "inner_size": 8, "n_heads": 1, "embedding_size": 8, "epochs": 1, "topk": [1, 18]}
ONE_EPOCH |= {
    "metrics": ["Hit", "MRR", "NDCG"],
    "valid_metric": "MRR@18",
    "metric_decimal_place": 8,
    "eval_args": SPLIT,
}
ONE_EPOCH |= {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}, "training_rows": "user", "eval_batch_size": 7}
ONE_EPOCH |= {"exclude_seen": False, "memory": False}  # whose weight follows from the validation
PROTOCOLS: dict[str, dict[str, Any]] = {
    "": {},
    "unseen.yaml": {"exclude_seen": True, "metrics": ["Hit", "NDCG"], "topk": [5], "valid_metric": "NDCG@5"},
    "drawn.yaml": {"eval_args": {"mode": "pop3"}, "candidates": "paper"},
}


@pytest.mark.parametrize("model", ["BERT4Rec", "SASRec", "Pop"])
def test_the_weights_are_tested_as_a_run_under_that_protocol_tests_them_and_metrics_follow_from_the_ranks(
    model: str, write_inter: Any
) -> None:
    options = {**ONE_EPOCH, **write_inter(ROWS)}
    for name, protocol in PROTOCOLS.items():
        Path(name or "none").write_text(yaml.safe_dump(protocol))
    names = [*PROTOCOLS][1:]
    result = run(model, **arguments(options), protocols=names, ranks="ranks.parquet")
    record = read_record(result.record_path)
    tested = {"": record["test_result"], **record["also"]}
    ranks = pd.read_parquet("ranks.parquet")
    for name, protocol in PROTOCOLS.items():
        eval_args = {**SPLIT, **protocol.get("eval_args", {})}
        wanted = run(model, **arguments({**options, **protocol, "eval_args": eval_args}))
        assert tested[name] == pytest.approx(dict(wanted.test_result or {}))
        of_users = ranks[ranks["protocol"] == name]
        assert dict(zip(of_users["user"], of_users["target"], strict=True)) == {user: item for user, item, _ in ROWS}
        for metric, value in tested[name].items():
            kind, _, k = metric.partition("@")
            hit = (of_users["rank"] > 0) & (of_users["rank"] <= int(k))
            place = of_users["rank"].where(hit, np.inf)
            gain = {"hit": hit, "mrr": 1 / place, "ndcg": hit / np.log2(place + 1)}[kind]
            assert value == pytest.approx(gain.fillna(0).mean(), abs=1e-6)
    assert tested["unseen.yaml"].keys() == {"hit@5", "ndcg@5"}
