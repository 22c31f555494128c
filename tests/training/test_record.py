"""The JSON record of a run: it follows its schema, and files that do not are refused."""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.record import SCHEMA, RunRecord, read_record
from recbole_bert4rec.training.run import run
from tests.helpers.runs import QUIET


def mistakes(value: Any, wanted: Any, place: str = "record") -> list[str]:
    """Where a JSON value is not of a type."""
    if wanted is Any:
        return []
    if typing.is_typeddict(wanted):
        if not isinstance(value, dict):
            return [f"{place} is no dictionary"]
        types_of = typing.get_type_hints(wanted)
        found = [f"{place} lacks {key}" for key in wanted.__required_keys__ - set(value)]
        found += [f"{place} has {key}, which the schema does not know" for key in set(value) - set(types_of)]
        return found + [
            one for key in set(value) & set(types_of) for one in mistakes(value[key], types_of[key], f"{place}.{key}")
        ]
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (types.UnionType, typing.Union):
        return [] if any(not mistakes(value, one) for one in arguments) else [f"{place}: {value!r}"]
    if origin is list:
        return [one for item in value for one in mistakes(item, arguments[0], f"{place}[]")]
    if origin is dict:
        return [one for key, item in value.items() for one in mistakes(item, arguments[1], f"{place}.{key}")]
    kinds = (int, float) if wanted is float else wanted
    return (
        [] if isinstance(value, kinds) and not (wanted is int and isinstance(value, bool)) else [f"{place}: {value!r}"]
    )


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"model": "Pop"},
        {"budget": 30.0},
        {"options": {"refit": "train+valid"}},
        {"options": {"eval_step": 0}},
    ],
    ids=str,
)
def test_a_real_record_follows_the_schema(more: dict[str, Any], options: dict[str, Any]) -> None:
    options = {**QUIET, **options, "epochs": 2, **more.get("options", {})}
    result = run(dataset=options.pop("dataset"), **{**more, "options": options})
    record = json.loads(result.record_path.read_text())
    assert record["schema"] == SCHEMA == 1
    assert not mistakes(record, RunRecord)
    assert len(mistakes({**record, "seed": "2020", "extra": 1}, RunRecord)) == 2, "the check finds what is wrong"
    for name, is_asked in (("budget", "budget" in more), ("refit", "refit" in options)):
        assert (name in record) == is_asked
    assert read_record(result.record_path) == record


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2}', "[" * 100_000])
def test_a_file_that_is_no_record_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "damaged.json"
    file.write_text(text)
    with pytest.raises(UserError, match=r"damaged\.json"):
        read_record(file)


def test_a_run_that_goes_on_after_its_record_was_damaged_begins_a_new_one(options: dict[str, Any]) -> None:
    options = {**QUIET, **options, "epochs": 2, "stopping_step": 50}
    dataset = options.pop("dataset")
    first = run(dataset=dataset, options=options)
    first.record_path.write_text("{")
    resumed = run(resume=first.checkpoint, options={"epochs": 4})
    assert resumed.checkpoint == first.checkpoint
    assert resumed.record["epochs"][-1]["epoch"] == 3
    assert json.loads(resumed.record_path.read_text()) == json.loads(json.dumps(resumed.record))
