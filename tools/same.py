"""Whether two stacks compute the same: data sets of every kind, one epoch of training, and each other's checkpoints.

`python tools/same.py make A` on one stack and `make B` on the other write checksums, metrics and checkpoints; `read B`
on the first and `read A` on the second test the other's checkpoints; `compare A B` on either says what differs.
"""

# ruff: noqa: E402
from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import recbole_bert4rec

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # checkpoints of the other stack
recbole_bert4rec.register()  # before functions of RecBole are imported by name

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.data.dataloader import KnowledgeBasedDataLoader
from recbole.data.dataset import Dataset
from recbole.quick_start import load_data_and_model
from recbole.utils import KGDataLoaderState, get_trainer, init_seed

QUIET = {"show_progress": False, "state": "error", "use_gpu": False}
SIDE = {
    "inter": ["user_id", "item_id", "rating", "timestamp"],
    "user": ["user_id", "age", "gender", "occupation"],
    "item": ["item_id", "movie_title", "release_year", "class"],
}
GRAPH = {"inter": ["user_id", "item_id", "timestamp"], "kg": ["head_id", "relation_id", "tail_id"]}
GRAPH["link"] = ["item_id", "entity_id"]
TOY = {"inter": ["user_id", "item_id", "rating", "timestamp", "place"]}
BENCHMARK = {
    "benchmark_filename": ["train", "valid", "test"],
    "load_col": {"inter": ["user_id", "item_id_list", "item_id"]},
}
BENCHMARK |= {"alias_of_item_id": ["item_id_list"]}
FILTERS = {
    "user_inter_num_interval": "[10,inf)",
    "item_inter_num_interval": "[5,inf)",
    "val_interval": {"rating": "[3,inf)", "timestamp": "[875000000,inf)"},
}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ml-100k, whole sequences": ("BERT4Rec", "ml-100k", {}),
    "ml-100k, padded prefixes": ("SASRec", "ml-100k", {}),
    "ml-100k, pairs with negatives": ("BPR", "ml-100k", {}),
    "ml-100k, random split": ("Pop", "ml-100k", {"eval_args": {"split": {"RS": [8, 1, 1]}, "order": "RO"}}),
    "ml-100k, k-core and values": ("SASRec", "ml-100k", {**FILTERS, "load_col": {"inter": SIDE["inter"]}}),
    "ml-100k, k-core and values, ours": ("BERT4Rec", "ml-100k", {**FILTERS, "load_col": {"inter": SIDE["inter"]}}),
    "ml-100k, side features": (
        "DeepFM",
        "ml-100k",
        {"load_col": SIDE, "normalize_all": True, "threshold": {"rating": 4}},
    ),
    "ml-100k, side features of sequences": ("SASRecF", "ml-100k", {"load_col": SIDE, "selected_features": ["class"]}),
    "ml-100k, knowledge graph": ("CFKG", "ml-100k", {"load_col": GRAPH}),
    "missing values": ("BPR", "toy", {"load_col": TOY}),
    "missing values, sequences": ("SASRec", "toy", {"load_col": TOY}),
    "missing values, ours": ("BERT4Rec", "toy", {"load_col": TOY}),
    "duplicates": ("BPR", "toy", {"load_col": TOY, "rm_dup_inter": "first"}),
    "benchmark files": ("SASRec", "split", BENCHMARK),
    "benchmark files, ours": ("BERT4Rec", "split", BENCHMARK),
}
"""Model, data set and options, by what is special."""
MODELS = ("BERT4Rec", "BERT4RecPlus", "SASRec", "GRU4Rec", "BPR", "LightGCN", "DeepFM")
SMALL = {
    "epochs": 1,
    "hidden_size": 16,
    "inner_size": 16,
    "embedding_size": 16,
    "n_layers": 1,
    "train_batch_size": 2048,
}


_WORDS = {True: "same     ", False: "DIFFERENT"}


def write_data(folder: Path) -> None:
    """Write a log with gaps and duplicates, and one that is split already."""
    draw = np.random.RandomState(1)
    rows = [
        [f"u{draw.randint(40)}", f"i{draw.randint(60)}", draw.randint(1, 6), t // 3, f"p{t % 7}"] for t in range(1500)
    ]
    for number in range(0, 1500, 11):
        rows[number][2 + number % 2 * 2] = ""
    header = ["user_id:token", "item_id:token", "rating:float", "timestamp:float", "place:token"]
    (folder / "toy").mkdir(parents=True, exist_ok=True)
    (folder / "toy" / "toy.inter").write_text("\n".join("\t".join(map(str, row)) for row in [header, *rows]) + "\n")
    (folder / "split").mkdir(exist_ok=True)
    for part, seed in (("train", 2), ("valid", 3), ("test", 4)):
        draw = np.random.RandomState(seed)
        lines = ["user_id:token\titem_id_list:token_seq\titem_id:token"]
        for user in range(50):
            history = " ".join(f"i{item}" for item in draw.randint(0, 30, draw.randint(1, 9)))
            lines.append(f"u{user}\t{history}\ti{draw.randint(30)}")
        (folder / "split" / f"split.{part}.inter").write_text("\n".join(lines) + "\n")


def config_of(folder: Path, model: str, dataset: str, options: dict[str, Any]) -> Config:
    """Return RecBole's configuration of a case."""
    places = {"checkpoint_dir": str(folder / "checkpoints")}
    if dataset != "ml-100k":
        places["data_path"] = str(folder / "data")
    return Config(model=model, dataset=dataset, config_dict={**QUIET, **places, **options})


def digest(values: Any) -> str:
    """Return a checksum of kind, shape and bits."""
    array = values.numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if array.dtype.kind in "OUS":
        array = np.frombuffer("\n".join(map(str, array.tolist())).encode(), dtype=np.uint8)
    kind = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(kind + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def digests_of(dataset: Dataset) -> dict[str, str]:
    """Return a checksum of each column and of each list of ids."""
    found = {f"{field} ids": digest(tokens) for field, tokens in dataset.field2id_token.items()}
    for name in dataset.feat_name_list:
        feature = getattr(dataset, name)
        for column in feature.columns:
            found[f"{name} {column}"] = digest(feature[column])
    return found


def read_data(folder: Path) -> dict[str, Any]:
    """Return the checksums of each case: whole, split, and its first batches."""
    found = {}
    for case, (model, name, options) in CASES.items():
        config = config_of(folder, model, name, options)
        init_seed(config["seed"], config["reproducibility"])
        dataset = create_dataset(config)
        loaders = data_preparation(config, dataset)
        parts = {"whole": digests_of(dataset)}
        for phase, loader in zip(("train", "valid", "test"), loaders, strict=True):
            if isinstance(loader, KnowledgeBasedDataLoader):
                loader.set_mode(KGDataLoaderState.RSKG)
            batch = next(iter(loader))
            rows = batch[0] if isinstance(batch, tuple) else batch
            parts[phase] = {column: digest(rows[column]) for column in rows.columns}
        found[case] = parts
    return found


def train(folder: Path) -> dict[str, Any]:
    """Return metrics after one epoch, and where the checkpoints are."""
    found = {}
    for model in MODELS:
        options = {**SMALL, **({"load_col": SIDE, "threshold": {"rating": 4}} if model == "DeepFM" else {})}
        began = time.perf_counter()
        result = recbole_bert4rec.run(model=model, dataset="ml-100k", options={**QUIET, **options, **places(folder)})
        found[model] = {
            "valid": result.best_valid_result,
            "test": result.test_result,
            "checkpoint": result.checkpoint.name,
            "seconds": round(time.perf_counter() - began, 1),
        }
    return found


def places(folder: Path) -> dict[str, str]:
    """Return where a run puts its files."""
    return {"checkpoint_dir": str(folder / "checkpoints")}


def read(folder: Path) -> int:
    """Test the checkpoints of another stack, and print whether the metrics are those that it had.

    Returns:
        The exit code.
    """
    wrong = 0
    for model, made in json.loads((folder / "made.json").read_text())["trained"].items():
        file = str(folder / "checkpoints" / made["checkpoint"])
        config, net, _, _, _, test = load_data_and_model(file)
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, net)
        same = trainer.evaluate(test, load_best_model=False) == made["test"]
        wrong += not same
        print(f"{_WORDS[same]}  test metrics of the checkpoint of {model}")
    return int(wrong > 0)


def make(folder: Path) -> None:
    """Write all that this stack makes."""
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder / "data")
    names = ("torch", "numpy", "pandas", "scipy", "pyarrow", "recbole")
    made: dict[str, Any] = {
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in names}},
        "data": read_data(folder),
        "trained": train(folder),
    }
    (folder / "made.json").write_text(json.dumps(made, indent=1))


def compare(one: Path, other: Path) -> int:
    """Print what is the same and what is not.

    Returns:
        The exit code.
    """
    a, b = (json.loads((folder / "made.json").read_text()) for folder in (one, other))
    print(a["versions"], b["versions"], sep="\n")
    differences = 0

    def say(what: str, same: bool, detail: str = "") -> None:
        nonlocal differences
        differences += not same
        print(f"{_WORDS[same]}  {what}  {detail}")

    for case, parts in a["data"].items():
        columns = sum(map(len, parts.values()))
        wrong = [f"{part} {c}" for part in parts for c in parts[part] if parts[part][c] != b["data"][case][part].get(c)]
        say(f"data, {case}", not wrong and parts.keys() == b["data"][case].keys(), f"{columns} columns {wrong or ''}")
    for model, result in a["trained"].items():
        same = all(result[kind] == b["trained"][model][kind] for kind in ("valid", "test"))
        say(f"one epoch of {model}", same, f"test {result['test']}")
    print(f"{differences} differences")
    return int(differences > 0)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, folders in (("make", 1), ("read", 1), ("compare", 2)):
        commands.add_parser(name).add_argument("folders", type=Path, nargs=folders)
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads the command line
    torch.set_num_threads(1)
    os.environ["TQDM_DISABLE"] = "1"
    commands_by_name: dict[str, Callable[..., int | None]] = {"make": make, "read": read, "compare": compare}
    return commands_by_name[options.command](*options.folders) or 0


if __name__ == "__main__":
    sys.exit(main())
