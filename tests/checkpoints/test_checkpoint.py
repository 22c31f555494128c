"""Checkpoints: plain, safe to read, rebuilt without evaluating anything."""

from __future__ import annotations

import pickle
import struct
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from recbole.quick_start import load_data_and_model

from recbole_bert4rec.checkpoints import checkpoint
from recbole_bert4rec.plugin.layered_config import plain_config, stored_config
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import run
from tests.helpers.runs import make_config, make_trainer, prepare


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("pwned"),))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a run of one epoch."""
    folder = tmp_path_factory.mktemp("trained")
    config = make_config(epochs=1, checkpoint_dir=str(folder), hidden_size=8, inner_size=8, **toy(folder))
    _, train, valid, _ = prepare(config)
    trainer = make_trainer(config, train)
    trainer.fit(train, valid, verbose=False)
    return Path(trainer.saved_model_file)


def toy(folder: Path, first: str = "") -> dict[str, Any]:
    """A data set of twelve items in a folder; ``first`` is a row before all others."""
    rows = [f"u{u}\ti{(u + t) % 12}\t{t}" for u in range(12) for t in range(6)]
    (folder / "data" / "toy").mkdir(parents=True, exist_ok=True)
    lines = ["user_id:token\titem_id:token\ttimestamp:float", *([first] if first else []), *rows]
    (folder / "data" / "toy" / "toy.inter").write_text("\n".join(lines) + "\n")
    return {"dataset": "toy", "data_path": str(folder / "data")}


def changed(trained: Path, path: Path, /, **entries: Any) -> Path:
    """The checkpoint with other entries."""
    checkpoint.write(path, {**torch.load(trained, weights_only=True), **entries})
    return path


def test_a_checkpoint_is_read_by_torch_with_weights_only(trained: Path) -> None:
    state = torch.load(trained, weights_only=True)
    read = checkpoint.read(trained)
    assert read.keys() == state.keys()
    assert read["item_tokens"] == state["item_tokens"]
    for name, weight in state["state_dict"].items():
        assert torch.equal(read["state_dict"][name], weight)


H, INNER, WINDOW, ITEMS = 8, 16, 6, 13  # sizes that no other size equals; padding is an item
BLOCK = {
    "attention.query_key_value": (3 * H, H),
    "attention.output": (H, H),
    "attention.norm": (H,),
    "feed_forward.inner": (INNER, H),
    "feed_forward.output": (H, INNER),
    "feed_forward.norm": (H,),
}
LAYER = {f"layers.0.{name}": shape for name, shape in BLOCK.items()}
EMBEDDED = {"output_bias": (ITEMS,), "item_embedding.weight": (ITEMS + 1, H)}
NORM, HEAD = {"embedding_norm": (H,)}, {"head": (H, H), "head_norm": (H,)}
FEATURES = {"features.values_0": (ITEMS + 1, 1), "features.tables.0.weight": (3, H)}
BIASES = {"position_bias.bias": (2, 2 * WINDOW - 1)}
PAPER = {"position": "start", "output_projection": True, "seen_bias": False}
PLUS = {"position": "relative", "output_projection": True, "seen_bias": True, "norm": "pre"}
PLUS["selected_features"] = ["class"]


def pairs(modules: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The weight and the bias of each module, by the shape of the weight."""
    named = {}
    for module, shape in modules.items():
        named |= {f"{module}.weight": shape, f"{module}.bias": shape[:1]}
    return named


@pytest.mark.parametrize(
    ("model", "options", "own", "of_the_encoder"),
    [
        ("BERT4Rec", PAPER, {}, {**EMBEDDED, "position_embedding.weight": (WINDOW, H), **pairs(NORM | LAYER | HEAD)}),
        (
            "BERT4RecPlus",
            PLUS,
            {"seen_bias": ()},
            {**EMBEDDED, **FEATURES, **pairs(NORM | LAYER | {"last_norm": (H,)} | HEAD), **BIASES},
        ),
    ],
)
def test_names_shapes_and_order_of_the_weights_are_those_of_the_checkpoints_of_before(
    tmp_path: Path,
    model: str,
    options: dict[str, Any],
    own: dict[str, tuple[int, ...]],
    of_the_encoder: dict[str, tuple[int, ...]],
) -> None:
    data = toy(tmp_path)
    lines = ["item_id:token\tclass:token_seq", *(f"i{item}\tc{item % 2}" for item in range(12))]
    (tmp_path / "data" / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    data["load_col"] = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class"]}
    sizes = {"hidden_size": H, "inner_size": INNER, "n_layers": 1, "n_heads": 2, "MAX_ITEM_LIST_LENGTH": WINDOW}
    config = make_config(model, **sizes, **data, **options)
    _, train, _, _ = prepare(config)
    weights = {name: tuple(weight.shape) for name, weight in make_trainer(config, train).model.state_dict().items()}
    wanted = {**own, "item_digest": (), **{f"encoder.{name}": shape for name, shape in of_the_encoder.items()}}
    assert list(weights.items()) == list(wanted.items())


def test_another_format_is_refused_in_one_line(trained: Path, tmp_path: Path) -> None:
    file = changed(trained, tmp_path / "a.pth", format="recbole_bert4rec checkpoint 1")
    with pytest.raises(UserError, match=r"a\.pth .*checkpoint 1"):
        checkpoint.read(file)


@pytest.mark.parametrize(("damage", "where"), [("cut", 0.3), ("cut", 0.99), *(("flip", number) for number in range(5))])
@pytest.mark.parametrize("reader", [checkpoint.read, load_data_and_model])
def test_a_damaged_checkpoint_is_refused_in_one_line_and_not_unpickled_even_where_that_is_asked_for(
    reader: Any, damage: str, where: Any, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    content = bytearray(trained.read_bytes())
    if damage == "cut":
        del content[int(len(content) * where) :]
    else:
        with zipfile.ZipFile(trained) as archive:
            member = sorted(archive.infolist(), key=lambda member: member.file_size)[-1 - where]
        name_size, extra_size = struct.unpack_from("<HH", content, member.header_offset + 26)
        content[member.header_offset + 30 + name_size + extra_size + member.file_size // 2] ^= 64
    (tmp_path / "a.pth").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.pth") as error:
        reader(str(tmp_path / "a.pth"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["pickle", "torch", "recbole", "text", "empty", "foreign", "missing"])
def test_a_file_of_another_kind_is_refused_in_one_line_and_runs_no_code(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.pth"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Evil()))
    elif kind == "torch":
        torch.save({"format": checkpoint.FORMAT, "config": Evil()}, path)
    elif kind == "recbole":
        torch.save({"config": Evil()}, path, pickle_protocol=4)
    elif kind in ("text", "empty"):
        path.write_text("hello" if kind == "text" else "")
    elif kind == "foreign":
        torch.save({"state_dict": {}}, path)
    with warnings.catch_warnings(), pytest.raises(UserError, match=r"a\.pth") as error:
        warnings.simplefilter("error")
        checkpoint.read(path)
    assert "\n" not in str(error.value)
    assert not Path("pwned").exists()
    if kind != "missing":
        assert isinstance(error.value, checkpoint.ForeignFileError)


def test_a_stored_configuration_comes_back_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(
        hidden_size=32, MAX_ITEM_LIST_LENGTH=20, eval_args={"split": {"LS": "valid_only"}, "order": "TO"}
    )
    stored = plain_config(config)
    monkeypatch.setattr("sys.argv", ["other.py", "--hidden_size=8"])
    again = stored_config(stored)
    differences = {
        key: (value, again[key]) for key, value in config.final_config_dict.items() if str(again[key]) != str(value)
    }
    assert differences == {}


def test_a_stored_string_is_never_evaluated() -> None:
    stored = plain_config(make_config())
    stored["wandb_project"] = "__import__('pathlib').Path('pwned').touch()"
    assert stored_config(stored)["wandb_project"] == stored["wandb_project"]
    assert not Path("pwned").exists()


def test_the_data_path_is_stored_without_the_data_set_s_name(write_inter) -> None:
    options = write_inter([("u", "i", 1)])
    config = make_config(**options)
    assert plain_config(config)["data_path"] == options["data_path"]
    assert stored_config(plain_config(config))["data_path"] == config["data_path"]


PLACES = {
    "checkpoint_dir": "elsewhere",
    "dataset_save_path": "evil.pth",
    "dataloaders_save_path": "evil.pth",
    "save_dataset": True,
    "save_dataloaders": True,
}


def test_places_and_pickles_are_neither_stored_nor_taken_from_a_checkpoint() -> None:
    config = make_config(**{**PLACES, "dataset_save_path": None, "dataloaders_save_path": None})
    assert config["checkpoint_dir"] == "elsewhere"
    assert not set(PLACES) & set(plain_config(config))
    stored = {**plain_config(make_config()), **PLACES}
    again = stored_config(stored)
    assert {key: again[key] for key in PLACES} == {key: make_config()[key] for key in PLACES}
    assert stored_config(stored, checkpoint_dir="mine")["checkpoint_dir"] == "mine"


@pytest.mark.parametrize("key", ["dataset_save_path", "dataloaders_save_path"])
def test_a_checkpoint_makes_nobody_read_a_pickle(
    trained: Path, tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = tmp_path / "evil.pth"
    evil.write_bytes(pickle.dumps(Evil()))
    config = {**torch.load(trained, weights_only=True)["config"], key: str(evil), "checkpoint_dir": "elsewhere"}
    file = changed(trained, tmp_path / "a.pth", config=config)
    load_data_and_model(str(file))
    monkeypatch.setattr(sys, "argv", ["run.py", "--show_progress=False", "--epochs=1"])
    run(resume=str(file))
    assert not Path("pwned").exists()
    assert not Path("elsewhere").exists()


def test_options_go_from_a_checkpoint_to_a_file_without_places(trained: Path, tmp_path: Path) -> None:
    config = checkpoint.read(trained)["config"]
    assert checkpoint.without_places({**config, **PLACES}) == config
    assert yaml.safe_load(yaml.safe_dump(config)) == config


def test_load_data_and_model_refuses_the_same_items_in_another_order_another_number_and_others(
    trained: Path, tmp_path: Path
) -> None:
    config = torch.load(trained, weights_only=True)["config"]
    file = changed(trained, tmp_path / "a.pth", config={**config, **toy(tmp_path)})
    data = tmp_path / "data" / "toy" / "toy.inter"
    for first in ("u0\ti7\t-1", "u0\tnew\t-1"):
        toy(tmp_path, first=first)
        with pytest.raises(UserError, match=r"a\.pth"):
            load_data_and_model(str(file))
    data.write_text(data.read_text().replace("\tnew\t", "\ti0\t").replace("\ti5\t", "\tother\t"))
    with pytest.raises(UserError, match=r"a\.pth"):
        load_data_and_model(str(file))


def test_weights_of_another_shape_are_refused_in_one_line(trained: Path, tmp_path: Path) -> None:
    weights = {name: weight[:1] for name, weight in checkpoint.read(trained)["state_dict"].items() if weight.dim()}
    file = changed(trained, tmp_path / "a.pth", state_dict=weights)
    with pytest.raises(UserError, match=r"a\.pth") as error:
        load_data_and_model(str(file))
    assert "\n" not in str(error.value)


def test_a_file_of_something_else_is_refused_and_not_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pth"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(UserError, match=r"a\.pth"):
        load_data_and_model(str(path))
    assert not Path("pwned").exists()
    torch.save({"config": {"dataset_save_path": "evil.pth"}}, path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(UserError, match=r"a\.pth"):
        load_data_and_model(str(path))
