"""Prints digests of the parts and of the sampled candidates that RecBole's functions make for several protocols."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

sys.argv = sys.argv[:1]
from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.utils import init_seed  # noqa: E402

import recbole_bert4rec  # noqa: E402, F401

COLUMNS = {"inter": ["user_id", "item_id", "timestamp"]}
SPLITS = {
    "LS": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"},
    "LS uni20": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "uni20"},
    "LS pop20": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "pop20"},
    "RS": {"split": {"RS": [0.8, 0.1, 0.1]}, "order": "TO", "group_by": "user", "mode": "full"},
    "TS": {"split": {"RS": [0.8, 0.1, 0.1]}, "order": "TO", "group_by": "none", "mode": "full"},
}


def digest(values: object) -> int:
    """Return a number that depends on all values and their order."""
    flat = np.asarray(values).ravel()
    return int((pd.util.hash_array(flat) * np.arange(1, len(flat) + 1, dtype=np.uint64)).sum())


for model in ("BERT4Rec", "SASRec", "BPR"):
    for name, arguments in SPLITS.items():
        options = {
            "data_path": ".",
            "load_col": COLUMNS,
            "eval_args": arguments,
            "show_progress": False,
            "use_gpu": False,
            "state": "error",
        }
        if model == "SASRec":
            options["train_neg_sample_args"] = None
        config = Config(model=model, dataset="toy", config_dict=options)
        init_seed(config["seed"], reproducibility=True)
        loaders = data_preparation(config, create_dataset(config))
        parts = [len(loader._dataset.inter_feat) for loader in loaders]
        rows = [digest(loader._dataset.inter_feat[loader._dataset.iid_field]) for loader in loaders]
        batch = next(iter(loaders[2]))
        candidates = [digest(value) for value in batch[1:] if hasattr(value, "shape")]
        columns = {field: digest(values) for field, values in sorted(batch[0].interaction.items())}
        print(model, name, parts, rows, columns, candidates)
