"""BERT4Rec as this package or as RecBole has it; an epoch of the latter is extrapolated from 5 batches."""

import json
import sys
import time

import numpy as np

TASK = json.loads(sys.argv[1])
sys.argv = sys.argv[:1]

import recbole_bert4rec  # noqa: E402
from recbole_bert4rec.plugin.hooks import in_program  # noqa: E402

PROGRAM = in_program()
PROGRAM.__enter__()  # before functions of RecBole are imported by name

import recbole  # noqa: E402
from common import Stopwatch, finish  # noqa: E402
from recbole.config import Config  # noqa: E402
from recbole.data import create_dataset, data_preparation  # noqa: E402
from recbole.utils import get_model, get_trainer, init_seed  # noqa: E402

from recbole_bert4rec.core import objectives  # noqa: E402
from recbole_bert4rec.system.environment import suppress_dependency_warnings  # noqa: E402

PAPER = {
    "position": "start",
    "output_projection": True,
    "seen_bias": False,
    "hidden_dropout_prob": 0.2,
    "loss_type": "CE",
}


def write_sequences(train, path):
    """For the other contestants: whole training sequences."""
    items = train._dataset.sequences.items.numpy()
    parts = [items[b : b + n] for b, n in zip(train.begin.tolist(), train.length.tolist(), strict=True)]
    lengths = np.array([len(part) for part in parts])
    np.savez(path, items=np.concatenate(parts), lengths=lengths, n_items=train._dataset.item_num - 1)


def main():
    suppress_dependency_warnings()
    model_name = TASK["model"]
    watch = Stopwatch(recbole_bert4rec.__version__ if model_name == "BERT4Rec" else recbole.__version__)
    options = {
        "data_path": TASK["data_path"],
        "MAX_ITEM_LIST_LENGTH": TASK["length"],
        "hidden_size": TASK["hidden_size"],
        "inner_size": 4 * TASK["hidden_size"],
        "mask_ratio": TASK["mask_ratio"],
        "epochs": TASK["epochs"],
        "state": "error",
        "show_progress": False,
        "use_gpu": TASK.get("device") == "cuda",
    }
    ours = {**PAPER, "batch_sequences": TASK["batch"]}
    stock = {"train_neg_sample_args": None, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
    options |= ours if model_name == "BERT4Rec" else stock
    options |= TASK["options"]
    if TASK["data_path"] is None:
        del options["data_path"]
    config = Config(model_name, TASK["dataset"], config_dict=options)
    init_seed(config["seed"], config["reproducibility"])
    train, *_ = data_preparation(config, create_dataset(config))
    model = get_model(model_name)(config, train._dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], model_name)(config, model)
    if model_name == "BERT4Rec":
        count_masks(watch)
        write_sequences(train, TASK["sequences"])
        for epoch in range(TASK["epochs"]):
            watch.start()
            trainer._train_epoch(train, epoch)
            watch.stop()
        return
    model.train()
    times = []
    for number, batch in enumerate(train):
        if number == 6:
            break
        began = time.perf_counter()
        trainer.optimizer.zero_grad()
        model.calculate_loss(batch.to(config["device"])).backward()
        trainer.optimizer.step()
        finish()
        times.append(time.perf_counter() - began)
    median = sorted(times[1:])[len(times[1:]) // 2]  # the first is warm-up
    watch.record["extrapolated"] = True
    for _ in range(2):
        watch.add(median * len(train), int(TASK["mask_ratio"] * int(train._dataset.inter_feat["item_length"].sum())))


def count_masks(watch):
    """Let every batch that is masked be counted."""
    cloze = objectives.cloze

    def counted(*arguments, **options):
        masked = cloze(*arguments, **options)
        watch.count(len(masked.rows))
        return masked

    objectives.cloze = counted


main()
