"""YAML as users write it: every text is read, or refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from recbole_bert4rec.experiments.space import read_space
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.yaml_files import parse_yaml, read_yaml

MISTAKES = [
    ("a: !!int x", "x"),
    ("a: 2001-99-99", "month"),
    ("a: 1\na: 2", "`a` .* 1 .* 2"),
    ("? [a]\n: 1", ""),
    ("a: \x00", " 3$"),
    ("a: 1\n b: [1\n", "line 2, column 3$"),
]


@pytest.mark.parametrize(("text", "named"), MISTAKES, ids=[text[:9] for text, _ in MISTAKES])
@pytest.mark.parametrize("reader", [read_yaml, read_space])
def test_a_mistake_is_refused_in_one_short_line_that_names_the_file(
    reader: object, text: str, named: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=f"{file}.*{named}") as error:
        reader(str(file))  # type: ignore[operator]
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize("text", ["1: x", "null: x", "- " + "x" * 100_000], ids=["number", "null", "list"])
def test_options_have_names_that_are_texts_and_what_is_wrong_is_cut_short(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=str(file)) as error:
        read_yaml(str(file))
    assert len(str(error.value)) < 400


def test_numbers_anchors_merged_keys_and_comments_alone_are_read(tmp_path: Path) -> None:
    text = "a: &a {x: 1e-3, y: 2}\nb: {<<: *a, y: 3}\nc: [*a, *a]\nd: !!int 7\ne: 5E4\nf: 1_0e1\ng: e3\n"
    content = parse_yaml(text, "here")
    assert content["b"] == {"x": 0.001, "y": 3}
    assert content["c"] == [content["a"], content["a"]]
    assert [content[key] for key in "defg"] == [7, 50000.0, 100.0, "e3"]
    assert parse_yaml("# epochs: 3", "here") is None
    (tmp_path / "mine.yaml").write_text("# epochs: 3\n")
    assert read_yaml(str(tmp_path / "mine.yaml")) == {}
