"""Options of the command line by their names, and folders that one program at a time writes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from recbole_bert4rec.options.flags import parse_flags
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import locked


def test_flags_are_read_by_name_and_the_last_of_two_counts() -> None:
    words = ["run.py", "--epochs=3", "--resume", "-m", "--metrics=['a','b']", "--x=a=b", "--epochs=4", "--y="]
    assert parse_flags(words) == {"epochs": "4", "metrics": "['a','b']", "x": "a=b", "y": ""}


def test_a_folder_is_locked_until_the_block_ends_however_it_ends(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "lock"
    for _ in range(2):
        with pytest.raises(KeyError), locked(lock, "search", "--output_file", tmp_path):
            assert lock.is_file()
            with pytest.raises(UserError, match="--output_file"), locked(lock, "search", "--output_file", tmp_path):
                pass
            raise KeyError
