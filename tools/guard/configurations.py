"""Prints the option table, and configurations as RecBole's Config resolves them, a line a value."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any

WORDS, sys.argv = sys.argv, sys.argv[:1]
import recbole_bert4rec  # noqa: E402, F401, I001
from recbole.config import Config  # noqa: E402

DICTIONARIES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "numbers as texts": {"learning_rate": "0.001", "hidden_size": "64"},
    "BPR": {"loss_type": "BPR"},
    "CE, negatives none": {"loss_type": "CE", "train_neg_sample_args": None},
    "sampled": {"loss_type": "sampled_softmax", "n_negatives": 10, "negatives": "popularity"},
    "candidates": {"eval_args": {"mode": "uni100"}},
    "two modes": {"eval_args": {"mode": {"valid": "uni100", "test": "full"}}},
    "ratio split": {"eval_args": {"split": {"RS": [0.8, 0.1, 0.1]}, "order": "TO", "group_by": "user"}},
    "metrics": {"metrics": ["Hit", "NDCG"], "topk": [1, 5], "valid_metric": "NDCG@5"},
    "columns": {"USER_ID_FIELD": "who", "ITEM_ID_FIELD": "what", "TIME_FIELD": "when"},
    "RecBole's training": {"train_batch_size": 2048, "learning_rate": 0.001, "stopping_step": 10, "epochs": 300},
}
FILES = {
    "paper": ["paper-ml-1m.yaml"],
    "best": ["best-ml-1m.yaml"],
    "protocol": ["protocol-full-unseen.yaml"],
    "documented": ["documented.yaml"],
    "two files": ["best-ml-1m.yaml", "protocol-paper.yaml"],
}
FLAGS = [
    ["--learning_rate=0.02", "--epochs=7"],
    ["--eval_args={'mode':'pop50'}"],
    ["--topk=[1,2]", "--valid_metric=MRR@2"],
]
DOCUMENTED = """
data_path: .
load_col: {inter: [user_id, item_id, timestamp]}
USER_ID_FIELD: user_id
ITEM_ID_FIELD: item_id
epochs: 500
train_batch_size: 4096
eval_batch_size: 4096
train_neg_sample_args: ~
eval_args: {split: {LS: valid_and_test}, group_by: user, order: TO, mode: full}
metrics: [Recall, MRR, NDCG, Hit, Precision]
topk: 10
valid_metric: MRR@10
metric_decimal_place: 4
"""


def show(name: str, model: str, files: list[str], options: dict[str, Any]) -> None:
    """Print a configuration, or why there is none."""
    quiet = {"data_path": ".", "state": "error", "show_progress": False, "use_gpu": False, **options}
    try:
        config = Config(model=model, dataset="toy", config_file_list=files or None, config_dict=quiet)
    except Exception as error:
        print(f"{name} {model} | {type(error).__name__}")
        return
    for key, value in sorted(config.final_config_dict.items()):
        value = repr(value).replace(os.environ["TREE"], "").replace(os.getcwd(), "")
        print(f"{name} {model} {key} | {value}")


def main() -> None:
    """Print the table, then all configurations."""
    tree = Path(os.environ["TREE"])
    for line in (tree / "docs" / "options.md").read_text("utf-8").splitlines():
        if line.startswith("| `"):
            print(" | ".join(part.strip() for part in line.split("|")[1:4]))
    Path("documented.yaml").write_text(DOCUMENTED)
    for (name, options), model in itertools.product(DICTIONARIES.items(), ("BERT4Rec", "BERT4RecPlus", "SASRec")):
        show(name, model, [], options)
    for name, files in FILES.items():
        paths = [str(tree / "properties" / "recipe" / file) if file != "documented.yaml" else file for file in files]
        show(name, "BERT4Rec", paths, {})
    for number, flags in enumerate(FLAGS):
        sys.argv = [WORDS[0], *flags]
        show(f"flags {number}", "BERT4Rec", [], {"epochs": 5})


if __name__ == "__main__":
    main()
