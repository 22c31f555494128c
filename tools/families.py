"""One epoch of each of RecBole's families on the ml-100k that it ships: python tools/families.py FILE writes JSON.

With two files of two stacks it prints them as the table in docs/versions.md: python tools/families.py ONE OTHER.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

import recbole_bert4rec

MODELS = (
    "Pop",
    "BPR",
    "ItemKNN",
    "EASE",
    "LightGCN",
    "NGCF",
    "NeuMF",
    "MultiVAE",
    "DeepFM",
    "SASRec",
    "GRU4Rec",
    "NARM",
)
MODELS += ("LightSANs", "CFKG", "Caser")
CLICKS = {
    "load_col": {
        "inter": ["user_id", "item_id", "rating"],
        "user": ["user_id", "age", "gender", "occupation"],
        "item": ["item_id", "release_year", "class"],
    },
    "threshold": {"rating": 4},
}
GRAPH = {
    "load_col": {
        "inter": ["user_id", "item_id", "rating"],
        "kg": ["head_id", "relation_id", "tail_id"],
        "link": ["item_id", "entity_id"],
    }
}
SHORT = {"MAX_ITEM_LIST_LENGTH": 10}  # with 50 its epoch does not end in 20 minutes
SPECIAL: dict[str, dict[str, Any]] = {"DeepFM": CLICKS, "CFKG": GRAPH, "Caser": SHORT}


def train(file: Path) -> None:
    """Write each model's test metrics and seconds, or its error, as they come."""
    found = json.loads(file.read_text()) if file.is_file() else {}
    for model in MODELS:
        if model in found:
            continue
        options = {"epochs": 1, "show_progress": False, "state": "error", "use_gpu": False, **SPECIAL.get(model, {})}
        began = time.perf_counter()
        try:
            tested = dict(recbole_bert4rec.run(model=model, dataset="ml-100k", options=options).test_result or {})
        except Exception as error:  # the table says so
            tested = {"error": f"{type(error).__name__}: {error}"}
        found[model] = {"test": tested, "seconds": round(time.perf_counter() - began, 1)}
        file.write_text(json.dumps(found, indent=1))


def show(one: Path, other: Path) -> None:
    """Print both stacks' metrics side by side."""
    a, b = (json.loads(file.read_text()) for file in (one, other))
    print("| model | test | the same |\n|-|-|-|")
    for model in MODELS:
        if model in a and model in b:
            metrics = a[model]["test"]
            name = next(name for name in ("ndcg@10", "auc", "error") if name in metrics)
            print(
                f"| {model} | {name} {metrics[name]} | {'yes' if metrics == b[model]['test'] else b[model]['test']} |"
            )


if __name__ == "__main__":
    files = [Path(name).resolve() for name in sys.argv[1:]]
    sys.argv = sys.argv[:1]  # RecBole reads the command line
    torch.set_num_threads(1)
    show(*files) if len(files) == 2 else train(*files)
