"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recbole_bert4rec.system.files import atomic_write


def test_a_file_replaces_the_old_one_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.txt"
    for content in ("old", "new"):
        with atomic_write(target) as temporary:
            temporary.write_text(content)
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")
    with pytest.raises(RuntimeError), atomic_write(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / f".file.{os.getpid()}.tmp").symlink_to(victim)
    with atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "file").read_text() == "new"
    assert not (tmp_path / "file").is_symlink()
    assert victim.read_text() == "precious"
