"""Categorical item features at the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_bert4rec.core.item_features import ItemFeatures
from recbole_bert4rec.core.objectives import OBJECTIVES
from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import make_config, make_trainer, prepare

ROWS = [(f"u{u}", f"i{(u + t) % 9}", t) for u in range(9) for t in range(6)]
COLUMNS = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class", "year", "price"]}


@pytest.fixture
def options(write_inter: Any, tmp_path: Path) -> dict[str, Any]:
    found = write_inter(ROWS)
    lines = ["item_id:token\tclass:token_seq\tyear:token\tprice:float"]
    lines += [f"i{i}\tc{i % 2} c{i % 3}\ty{i % 4}\t{i}" for i in range(1, 9)]  # i0 has no line
    (tmp_path / "data" / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    return {**found, "load_col": COLUMNS, "topk": [3], "valid_metric": "MRR@3", "hidden_size": 8}


def test_a_feature_vector_is_the_mean_of_its_values_summed_over_the_features() -> None:
    torch.manual_seed(0)
    values = [torch.tensor([[0, 0], [1, 2], [2, 0], [0, 0]]), torch.tensor([[0], [3], [1], [0]])]
    features = ItemFeatures(values, [3, 4], hidden_size=5)
    first, second = (table.weight for table in features.tables)
    found = features(torch.tensor([[1, 2, 0, 3]]))[0]
    assert torch.allclose(found[0], (first[1] + first[2]) / 2 + second[3])
    assert torch.allclose(found[1], first[2] + second[1])
    assert not found[2:].any()  # padding and [MASK]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_selected_features_train_and_change_the_scores_of_those_who_saw_them(
    objective: str, options: dict[str, Any]
) -> None:
    config = make_config(**options, selected_features=["class", "year"], objective=objective, epochs=1)
    _, train, valid, _ = prepare(config)
    trainer = make_trainer(config, train)
    features = trainer.model.encoder.features
    before = [table.weight.clone() for table in features.tables]
    assert [len(weight) for weight in before] == [4, 5]
    assert not any(weight[0].any() for weight in before)
    trainer.fit(train, valid, verbose=False)
    assert all(not torch.equal(a, b.weight) for a, b in zip(before, features.tables, strict=True))
    trainer.model.eval()
    rows = next(iter(valid))[0]
    plain = trainer.model.full_sort_predict(rows)
    features.tables[0].weight.data[1] += torch.linspace(-5, 5, 8)
    assert not torch.allclose(plain, trainer.model.full_sort_predict(rows))
    assert trainer.evaluate(valid)["hit@3"] >= 0  # the checkpoint brings the features along


@pytest.mark.parametrize(
    ("header", "line", "named"),
    [
        (None, "i1\tc1\ty1\t1\tmore", r"toy\.item, line 10: "),
        (None, "i1\tc1\ty1\t1", r"toy\.item: .*'i1'.* 2 and 10"),
        ("item_id:token\tclass:tokens\tyear:token\tprice:float", None, r"toy\.item .*tokens.*class"),
        ("item_id:token\tclass:token\tclass:token\tprice:float", None, r"toy\.item, line 1: .*class.*class"),
        ("item:token\tclass:token\tyear:token\tprice:float", None, r"toy\.item, line 1: .*'item_id:token'"),
        ("item_id:token\tclass\tyear:token\tprice:float", None, r"toy\.item, line 1: .*'class'"),
    ],
)
def test_items_that_cannot_be_read_are_named(
    header: str | None, line: str | None, named: str, options: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "data" / "toy" / "toy.item"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([header or first, *rest, *([line] if line else [])]) + "\n")
    with pytest.raises(UserError, match=named):
        prepare(make_config(**options))


@pytest.mark.parametrize("name", ["colour", "item_id"])
def test_features_that_are_not_there_are_named(name: str, options: dict[str, Any]) -> None:
    config = make_config(**options, selected_features=[name])
    with pytest.raises(UserError, match=f"'{name}'"):
        make_trainer(config, prepare(config)[1])


def test_lines_without_an_item_are_left_out_and_the_others_keep_their_values(
    options: dict[str, Any], tmp_path: Path
) -> None:
    whole = prepare(make_config(**options))[0].item_features(["class", "year"])
    file = tmp_path / "data" / "toy" / "toy.item"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, "\tc7\ty7\t7", *rest[:3], "\t\t\t", *rest[3:]]))
    found = prepare(make_config(**options))[0].item_features(["class", "year"])
    assert [size for _, size in found] == [size for _, size in whole]
    assert all(torch.equal(one, other) for (one, _), (other, _) in zip(found, whole, strict=True))
