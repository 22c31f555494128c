"""`protocols`: the selected weights under other protocols, as a run under each of them would test them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import run
from tests.helpers.runs import QUIET

ROWS = [(f"u{u}", f"i{(u * t + t) % 23}", t) for u in range(1, 31) for t in range(4 + u % 10)]
SPLIT = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}
ONE_EPOCH = {**QUIET, "hidden_size": 8, "inner_size": 8, "n_heads": 1, "embedding_size": 8, "epochs": 1, "topk": [3]}
ONE_EPOCH |= {"metrics": ["MRR"], "valid_metric": "MRR@3", "eval_args": SPLIT, "exclude_seen": False}
ONE_EPOCH |= {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}, "training_rows": "user"}
UNSEEN = {"exclude_seen": True, "metrics": ["Hit", "NDCG"], "topk": [5], "valid_metric": "NDCG@5"}
DRAWN = {"eval_args": {"mode": "pop3"}, "candidates": "paper"}


@pytest.mark.parametrize("model", ["BERT4Rec", "BERT4RecPlus", "SASRec", "Pop"])
def test_the_weights_are_tested_as_a_run_under_that_protocol_tests_them(
    model: str, write_inter: Any, tmp_path: Path
) -> None:
    options = {**ONE_EPOCH, "memory": False, **write_inter(ROWS)}  # whose weight follows from the validation
    dataset = options.pop("dataset")
    protocols = {"unseen.yaml": UNSEEN, "drawn.yaml": DRAWN}
    for name, protocol in protocols.items():
        Path(name).write_text(yaml.safe_dump(protocol))
    result = run(model=model, dataset=dataset, options=options, protocols=list(protocols))
    alone = run(model=model, dataset=dataset, options=options)
    assert result.test_result == alone.test_result
    for name, protocol in protocols.items():
        arguments = {**SPLIT, **protocol.get("eval_args", {})}
        wanted = run(model=model, dataset=dataset, options={**options, **protocol, "eval_args": arguments})
        assert result.record["also"][name] == pytest.approx(dict(wanted.test_result or {}))
    stored = json.loads(result.record_path.read_text())
    assert stored["also"] == result.record["also"]
    assert stored["also"]["unseen.yaml"].keys() == {"hit@5", "ndcg@5"}


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        ({"eval_args": {**SPLIT, "split": {"LS": "test_only"}}}, "test_only"),
        ({"eval_args": {**SPLIT, "order": "RO"}}, "order"),
        ({"exclude_seen": "often"}, "exclude_seen"),
        ({"topk": [99]}, "topk"),
    ],
    ids=["split", "order", "value", "data"],
)
def test_a_protocol_that_cannot_be_followed_is_refused_before_training(
    protocol: dict[str, Any], said: str, write_inter: Any
) -> None:
    options = {**ONE_EPOCH, **write_inter(ROWS)}
    Path("other.yaml").write_text(yaml.safe_dump(protocol))
    with pytest.raises(UserError, match=said):
        run(model="BERT4Rec", dataset=options.pop("dataset"), options=options, protocols=["other.yaml"])
    assert not list(Path().glob("saved/*"))
