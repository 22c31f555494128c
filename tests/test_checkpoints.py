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

from recbole_bert4rec import checkpoints
from recbole_bert4rec.plugin.config import plain_config, stored_config
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.run import run
from tests.helpers.data import inter_writer
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


def toy(folder: Path) -> dict[str, Any]:
    """A data set of twelve items in a folder."""
    return inter_writer(folder)([(f"u{u}", f"i{(u + t) % 12}", t) for u in range(12) for t in range(6)])


def changed(trained: Path, path: Path, /, **entries: Any) -> Path:
    """The checkpoint with other entries."""
    checkpoints.write(path, {**torch.load(trained, weights_only=True), **entries})
    return path


def test_a_checkpoint_is_read_by_torch_with_weights_only(trained: Path) -> None:
    state = torch.load(trained, weights_only=True)
    read = checkpoints.read(trained)
    assert read.keys() == state.keys()
    assert read["item_tokens"] == state["item_tokens"]
    for name, weight in state["state_dict"].items():
        assert torch.equal(read["state_dict"][name], weight)


H, INNER, WINDOW, ITEMS = 8, 16, 6, 13  # sizes that no other size equals; padding is an item
ATTENTION = {"query_key_value": (3 * H, H), "output": (H, H), "norm": (H,)}
FEED_FORWARD = {"inner": (INNER, H), "output": (H, INNER), "norm": (H,)}
PARTS = {"attention": ATTENTION, "feed_forward": FEED_FORWARD}
LAYER = {f"layers.0.{part}.{name}": shape for part, shapes in PARTS.items() for name, shape in shapes.items()}
EMBEDDED = {"output_bias": (ITEMS,), "item_embedding.weight": (ITEMS + 1, H)}
NORM, HEAD = {"embedding_norm": (H,)}, {"head": (H, H), "head_norm": (H,)}
FEATURES = {"features.values_0": (ITEMS + 1, 1), "features.tables.0.weight": (3, H)}
BIASES = {"position_bias.bias": (2, 2 * WINDOW - 1)}
PAPER = {"model": "BERT4Rec", "position": "start", "seen_bias": False}
PLUS = {"model": "BERT4RecPlus", "position": "relative", "norm": "pre", "selected_features": ["class"]}


def pairs(modules: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The weight and the bias of each module, by the shape of the weight."""
    return {
        f"{name}.{kind}": own
        for name, shape in modules.items()
        for kind, own in (("weight", shape), ("bias", shape[:1]))
    }


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (PAPER, {**EMBEDDED, "position_embedding.weight": (WINDOW, H), **pairs(NORM | LAYER | HEAD)}),
        (PLUS, {**EMBEDDED, **FEATURES, **pairs(NORM | LAYER | {"last_norm": (H,)} | HEAD), **BIASES}),
    ],
    ids=["BERT4Rec", "BERT4RecPlus"],
)
def test_names_shapes_and_order_of_the_weights_are_those_of_the_checkpoints_of_before(
    tmp_path: Path, options: dict[str, Any], wanted: dict[str, tuple[int, ...]]
) -> None:
    data = toy(tmp_path)
    lines = ["item_id:token\tclass:token_seq", *(f"i{item}\tc{item % 2}" for item in range(12))]
    (tmp_path / "data" / "toy" / "toy.item").write_text("\n".join(lines) + "\n")
    data["load_col"] = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class"]}
    sizes = {"hidden_size": H, "inner_size": INNER, "n_layers": 1, "n_heads": 2, "MAX_ITEM_LIST_LENGTH": WINDOW}
    config = make_config(**sizes, **data, **{"seen_bias": True, "output_projection": True, **options})
    model = make_trainer(config, prepare(config)[1]).model
    own = {"seen_bias": ()} if options is PLUS else {}
    wanted = {**own, "item_digest": (), **{f"encoder.{name}": shape for name, shape in wanted.items()}}
    assert [(name, tuple(weight.shape)) for name, weight in model.state_dict().items()] == [*wanted.items()]


@pytest.mark.parametrize(("damage", "where"), [("cut", 0.3), ("cut", 0.99), *(("flip", number) for number in range(5))])
@pytest.mark.parametrize("reader", [checkpoints.read, load_data_and_model])
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


OTHERS: dict[str, Any] = {
    "pickle": pickle.dumps(Evil()),
    "torch": {"format": checkpoints.FORMAT, "config": Evil()},
    "recbole": {"config": {"dataset_save_path": "evil.pth"}},
    "text": b"hello",
    "empty": b"",
    "foreign": {"state_dict": {}},
}


@pytest.mark.parametrize(
    ("reader", "kind"),
    [*((checkpoints.read, kind) for kind in OTHERS), *((load_data_and_model, kind) for kind in ("pickle", "recbole"))],
)
def test_a_file_of_another_kind_is_refused_in_one_line_and_runs_no_code(
    reader: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reader is checkpoints.read or kind == "recbole":
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    if isinstance(OTHERS[kind], bytes):
        Path("a.pth").write_bytes(OTHERS[kind])
    else:
        torch.save(OTHERS[kind], "a.pth", pickle_protocol=4 if kind == "recbole" else 2)
    with warnings.catch_warnings(), pytest.raises(UserError, match=r"a\.pth") as error:
        warnings.simplefilter("error" if reader is checkpoints.read else "ignore")  # torch's of the variable
        reader("a.pth")
    assert "\n" not in str(error.value)
    assert not Path("pwned").exists()
    assert reader is not checkpoints.read or isinstance(error.value, checkpoints.ForeignFileError)


def test_another_format_and_weights_of_another_shape_are_refused_in_one_line(trained: Path, tmp_path: Path) -> None:
    older = changed(trained, tmp_path / "a.pth", format="recbole_bert4rec checkpoint 1")
    with pytest.raises(UserError, match=r"a\.pth .*checkpoint 1"):
        checkpoints.read(older)
    weights = {name: weight[:1] for name, weight in checkpoints.read(trained)["state_dict"].items() if weight.dim()}
    file = changed(trained, tmp_path / "a.pth", state_dict=weights)
    with pytest.raises(UserError, match=r"a\.pth") as error:
        load_data_and_model(str(file))
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match=r"none\.pth"):
        checkpoints.read(tmp_path / "none.pth")


def test_a_stored_configuration_comes_back_equal_and_no_string_is_evaluated(
    write_inter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**write_inter([("u", "i", 1)]), "wandb_project": "__import__('pathlib').Path('pwned').touch()"}
    split = {"split": {"LS": "valid_only"}, "order": "TO"}
    config = make_config(hidden_size=32, MAX_ITEM_LIST_LENGTH=20, eval_args=split, **options)
    stored = plain_config(config)
    assert stored["data_path"] == options["data_path"], "without the data set's name"
    monkeypatch.setattr("sys.argv", ["other.py", "--hidden_size=8"])
    again = stored_config(stored)
    values = config.final_config_dict
    assert {key: again[key] for key in values if str(again[key]) != str(values[key])} == {}
    assert not Path("pwned").exists()


PLACES = {
    "checkpoint_dir": "elsewhere",
    "dataset_save_path": "evil.pth",
    "dataloaders_save_path": "evil.pth",
    "save_dataset": True,
    "save_dataloaders": True,
}


def test_places_and_pickles_are_neither_stored_nor_taken_from_a_checkpoint(trained: Path) -> None:
    config = make_config(**{**PLACES, "dataset_save_path": None, "dataloaders_save_path": None})
    assert config["checkpoint_dir"] == "elsewhere"
    assert not set(PLACES) & set(plain_config(config))
    stored = {**plain_config(make_config()), **PLACES}
    again = stored_config(stored)
    assert {key: again[key] for key in PLACES} == {key: make_config()[key] for key in PLACES}
    assert stored_config(stored, checkpoint_dir="mine")["checkpoint_dir"] == "mine"
    options = checkpoints.read(trained)["config"]
    assert checkpoints.without_places({**options, **PLACES}) == options
    assert yaml.safe_load(yaml.safe_dump(options)) == options


def test_a_checkpoint_makes_nobody_read_a_pickle(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = tmp_path / "evil.pth"
    evil.write_bytes(pickle.dumps(Evil()))
    places = {"dataset_save_path": str(evil), "dataloaders_save_path": str(evil), "checkpoint_dir": "elsewhere"}
    config = {**torch.load(trained, weights_only=True)["config"], **places}
    file = changed(trained, tmp_path / "a.pth", config=config)
    load_data_and_model(str(file))
    monkeypatch.setattr(sys, "argv", ["run.py", "--show_progress=False", "--epochs=1"])
    run(resume=str(file))
    assert not Path("pwned").exists()
    assert not Path("elsewhere").exists()


def test_load_data_and_model_refuses_the_same_items_in_another_order_another_number_and_others(
    trained: Path, tmp_path: Path
) -> None:
    config = {**torch.load(trained, weights_only=True)["config"], **toy(tmp_path)}
    file, data = changed(trained, tmp_path / "a.pth", config=config), tmp_path / "data" / "toy" / "toy.inter"
    load_data_and_model(str(file))
    plain = data.read_text()
    first, *rest = plain.splitlines()
    for text in (
        "\n".join([first, "u0\ti7\t-1", *rest]),
        "\n".join([first, "u0\tnew\t-1", *rest]),
        plain.replace("\ti5\t", "\tother\t"),
    ):
        data.write_text(text + "\n")
        with pytest.raises(UserError, match=r"a\.pth"):
            load_data_and_model(str(file))
