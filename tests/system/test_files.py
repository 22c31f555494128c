"""Files appear whole or not at all; folders that one program at a time writes to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import TABLES, atomic_write, check_output, locked


def test_a_file_replaces_the_old_one_when_it_is_complete_and_follows_no_link(tmp_path: Path) -> None:
    target, victim = tmp_path / "new" / "file", tmp_path / "victim"
    victim.write_text("precious")
    for content in ("old", "new"):
        with atomic_write(target) as temporary:
            temporary.write_text(content)
        (target.parent / f".file.{os.getpid()}.tmp").symlink_to(victim)
    with pytest.raises(RuntimeError), atomic_write(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert (target.read_text(), target.is_symlink(), victim.read_text()) == ("new", False, "precious")
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize(
    ("path", "named"),
    [("a.txt", "a.txt"), ("no/a.csv", "/no "), ("folder.csv", "folder.csv"), ("folder", "folder")],
)
def test_an_output_that_could_not_be_written_is_refused_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("folder.csv", "folder"):
        Path(folder).mkdir()
    Path("old.csv").touch()
    with pytest.raises(UserError, match=named) as error:
        check_output("--output", path, TABLES)
    assert "--output" in str(error.value)
    for good in ("old.csv", "new.parquet"):
        check_output("--output", good, TABLES)
    check_output("--checkpoint_dir", "made/below")
    assert Path("made/below").is_dir()
    with pytest.raises(UserError, match="--checkpoint_dir"):
        check_output("--checkpoint_dir", "old.csv/below")


def test_a_folder_is_locked_until_the_block_ends_however_it_ends(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "lock"
    for _ in range(2):
        with pytest.raises(KeyError), locked(lock, "search", "--output_file", tmp_path):
            assert lock.is_file()
            with pytest.raises(UserError, match="--output_file"), locked(lock, "search", "--output_file", tmp_path):
                pass
            raise KeyError
