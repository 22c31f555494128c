"""A program of somebody who uses RecBole: trains its models by hand, without this package or with it imported later.

``python tests/helpers/guest.py [stock | guest] OPTIONS`` prints, for each model, all that a run leaves: configuration,
losses, metrics, weights and names of files.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

mode, asked = sys.argv[1], json.loads(sys.argv[2])
sys.argv = sys.argv[:1]
mine: dict[str, Any] = {}
if mode == "guest":
    exec("from recbole.data import *; from recbole.quick_start import *; from recbole.utils import *", mine)
    own = dict(mine)
    from recbole.model.sequential_recommender import BERT4Rec as Stock  # noqa: F401

    import recbole_bert4rec  # noqa: F401

import numpy as np  # noqa: E402
import torch  # noqa: E402
from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.utils import get_model, get_trainer, init_seed  # noqa: E402

torch.set_num_threads(1)
if mode == "stock":  # numpy 2 has none of these, without which no configuration can be made
    for name, kind in {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}.items():
        if not hasattr(np, name):
            setattr(np, name, kind)


def trained(model: str, dataset: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return what one epoch of a model leaves."""
    before = {str(path) for path in Path().rglob("*")}
    config = Config(model, dataset, config_dict=dict(options))
    init_seed(config["seed"], config["reproducibility"])
    data = create_dataset(config)
    train, valid, test = data_preparation(config, data)
    init_seed(config["seed"], config["reproducibility"])
    network = get_model(model)(config, train.dataset)
    trainer = get_trainer(config["MODEL_TYPE"], model)(config, network)
    best = trainer.fit(train, valid, verbose=False, show_progress=False)
    metrics = trainer.evaluate(test, load_best_model=False)
    weights = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        weights.update(name.encode() + value.contiguous().numpy().tobytes())
    # those of TensorBoard are named by the second alone, so that two models may share a folder
    written = {str(path) for path in Path().rglob("*") if "tensorboard" not in str(path)} - before
    files = {re.sub(r"[\d_-]+", "#", path) for path in written}
    return {
        "configuration": str(sorted((key, str(value)) for key, value in config.final_config_dict.items())),
        "losses": str(trainer.train_loss_dict),
        "validation": repr(best),
        "test": repr(metrics),
        "weights": weights.hexdigest(),
        "files": sorted(files),
    }


for model, more in asked["models"].items():
    try:
        found: Any = trained(model, asked["dataset"], {**asked["options"], **more})
    except Exception as error:  # what RecBole cannot do on these libraries is compared as well
        found = f"{type(error).__name__}: {error}"
    print(json.dumps([model, found]), flush=True)
