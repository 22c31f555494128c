"""Categorical item features at the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_bert4rec.core.beyond_paper import ItemFeatures
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


def test_without_features_there_are_no_tables(options: dict[str, Any]) -> None:
    config = make_config(**options)
    _, train, *_ = prepare(config)
    assert make_trainer(config, train).model.encoder.features is None


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("colour", r"names 'colour', but .* are \['class', 'year', 'price'\]; name it in load_col"),
        ("item_id", r"names 'item_id', but .* are \['class', 'year', 'price'\]; name it in load_col"),
    ],
)
def test_a_feature_that_is_not_there_is_refused(name: str, wanted: str, options: dict[str, Any]) -> None:
    config = make_config(**options, selected_features=[name])
    _, train, *_ = prepare(config)
    with pytest.raises(UserError, match=wanted):
        make_trainer(config, train)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("i1\tc1\ty1\t1\tmore", r"toy\.item, line 10: the number of columns is 5, but the header has 4"),
        ("i1\tc1\ty1\t1", r"toy\.item: item_id 'i1' stands in lines 2 and 10; leave one"),
    ],
)
def test_a_line_that_would_be_read_as_something_else_is_named(
    line: str, message: str, options: dict[str, Any], tmp_path: Path
) -> None:
    with open(tmp_path / "data" / "toy" / "toy.item", "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UserError, match=message):
        prepare(make_config(**options))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "item_id:token\tclass:tokens\tyear:token\tprice:float",
            "column 'class' must be of one of .*, but is 'tokens'",
        ),
        ("item_id:token\tclass:token\tclass:token\tprice:float", "two columns have the same name: .*'class', 'class'"),
        ("item:token\tclass:token\tyear:token\tprice:float", r"no column 'item_id'; the columns are \['item', 'class'"),
        ("item_id:token\tclass\tyear:token\tprice:float", "column 'class' must be written NAME:TYPE"),
    ],
)
def test_a_header_of_items_that_cannot_be_read_is_named(
    header: str, message: str, options: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "data" / "toy" / "toy.item"
    file.write_text("\n".join([header, *file.read_text().splitlines()[1:]]))
    with pytest.raises(UserError, match=rf"toy\.item, line 1: {message}"):
        prepare(make_config(**options))


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
