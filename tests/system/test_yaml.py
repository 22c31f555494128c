"""YAML as users write it: every text is read, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import parse_yaml, read_yaml
from recbole_bert4rec.tuning.space import read_space

MISTAKES = [
    ("a: !!int x", "x"),
    ("a: !!bool maybe", "maybe"),
    ("a: 2001-99-99", "month"),
    ("a: 1\na: 2", "`a` stands in line 1 and again in line 2"),
    ("? [a]\n: 1", "unhashable"),
    ("a: \x00", "special characters are not allowed in position 3$"),
    ("a: 1\n b: [1\n", "mapping values are not allowed here in line 2, column 3$"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
@pytest.mark.parametrize("reader", [read_yaml, read_space])
def test_a_mistake_is_refused_in_one_line_that_names_the_file(
    reader: object, text: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        reader(str(file))  # type: ignore[operator]
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("text", ["1: x", "yes: x", "null: x", "1.5: x", "2001-01-01: x"])
def test_the_name_of_an_option_must_be_a_text(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match="the name of an option must be a text, but one is"):
        read_yaml(str(file))


def test_a_file_of_comments_alone_has_no_options(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("# epochs: 3\n")
    assert read_yaml(str(file)) == {}


def test_what_is_no_dictionary_is_shown_cut_short(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("- " + "x" * 100_000)
    with pytest.raises(UserError, match="must hold lines of `key: value`") as error:
        read_yaml(str(file))
    assert len(str(error.value)) < 400


def test_numbers_anchors_and_merged_keys_are_read() -> None:
    text = "a: &a {x: 1e-3, y: 2}\nb: {<<: *a, y: 3}\nc: [*a, *a]\nd: !!int 7\ne: 5E4\n"
    content = parse_yaml(text, "here")
    assert content["b"] == {"x": 0.001, "y": 3}
    assert content["c"] == [content["a"], content["a"]]
    assert (content["d"], content["e"]) == (7, 50000.0)
    assert parse_yaml("", "here") is None
