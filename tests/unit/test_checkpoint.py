"""Checkpoints: plain, safe to read, rebuilt without evaluating anything."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import pytest
import torch

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.plugin import checkpoint
from tests.conftest import make_config


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("pwned"),))


def test_a_checkpoint_is_read_by_torch_with_weights_only(tmp_path: Path) -> None:
    state = {"config": checkpoint.plain_config(make_config()), "state_dict": {"w": torch.ones(2)}}
    checkpoint.write(tmp_path / "a.pth", state)
    assert torch.load(tmp_path / "a.pth", weights_only=True)["state_dict"]["w"].tolist() == [1, 1]
    assert checkpoint.read_if_ours(tmp_path / "a.pth") is not None


@pytest.mark.parametrize("kind", ["pickle", "torch", "recbole", "text", "foreign", "missing"])
def test_a_file_of_another_kind_is_refused_in_one_line_and_runs_no_code(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.pth"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Evil()))
    elif kind == "torch":
        torch.save({"format": checkpoint.FORMAT, "config": Evil()}, path)
    elif kind == "recbole":
        torch.save({"config": Evil()}, path, pickle_protocol=4)
    elif kind == "text":
        path.write_text("hello")
    elif kind == "foreign":
        torch.save({"state_dict": {}}, path)
    with warnings.catch_warnings(), pytest.raises(UserError, match=r"a\.pth") as error:
        warnings.simplefilter("error")
        checkpoint.read(path)
    assert "\n" not in str(error.value)
    assert not Path("pwned").exists()
    assert checkpoint.read_if_ours(path) is None


def test_a_stored_configuration_comes_back_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(
        hidden_size=32, MAX_ITEM_LIST_LENGTH=20, eval_args={"split": {"LS": "valid_only"}, "order": "TO"}
    )
    stored = checkpoint.plain_config(config)
    monkeypatch.setattr("sys.argv", ["other.py", "--hidden_size=8"])
    again = checkpoint.StoredConfig(stored)
    differences = {
        key: (value, again[key]) for key, value in config.final_config_dict.items() if str(again[key]) != str(value)
    }
    assert differences == {}


def test_a_stored_string_is_never_evaluated() -> None:
    stored = checkpoint.plain_config(make_config())
    stored["note"] = "__import__('pathlib').Path('pwned').touch()"
    assert checkpoint.StoredConfig(stored)["note"] == stored["note"]
    assert not Path("pwned").exists()


def test_the_data_path_is_stored_without_the_data_set_s_name(write_inter) -> None:
    options = write_inter([("u", "i", 1)])
    config = make_config(**options)
    assert checkpoint.plain_config(config)["data_path"] == options["data_path"]
    assert checkpoint.StoredConfig(checkpoint.plain_config(config))["data_path"] == config["data_path"]
