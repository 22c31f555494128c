"""RecTools' BERT4RecModel, its own defaults but for the sizes of the task, validated after every epoch."""

import json
import time

import numpy as np
import pandas as pd
import rectools
from common import Task
from pytorch_lightning import Callback, Trainer
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import BERT4RecModel

task = Task()
with np.load(task.sequences) as file:
    targets = file["targets"]
ends = np.cumsum(np.load(task.sequences)["lengths"])
began = time.perf_counter()


class Validation(Callback):
    """NDCG@10 of the held-out items among all that the user has not seen."""

    def on_train_epoch_end(self, trainer, module):
        model.is_fitted = True
        top = model.recommend(np.arange(len(targets)), dataset, k=10, filter_viewed=True)
        module.train()
        hits = top[top[Columns.Item].to_numpy() == targets[top[Columns.User].to_numpy()]]
        ndcg = float((1 / np.log2(hits[Columns.Rank].to_numpy() + 1)).sum() / len(targets))
        line = {"version": rectools.__version__, "second": time.perf_counter() - began, "ndcg": ndcg}
        print(json.dumps(line), flush=True)


def trainer():
    quiet = dict.fromkeys(("enable_progress_bar", "logger", "enable_checkpointing", "enable_model_summary"), False)
    return Trainer(max_epochs=task.epochs, accelerator="cpu", callbacks=[Validation()], **quiet)


whole = np.split(np.load(task.sequences)["items"], ends[:-1])
rows = [(user, item, place) for user, history in enumerate(whole) for place, item in enumerate(history)]
frame = pd.DataFrame(rows, columns=[Columns.User, Columns.Item, Columns.Datetime])
frame[Columns.Datetime] = pd.to_datetime(frame[Columns.Datetime], unit="s")
frame[Columns.Weight] = 1
dataset = Dataset.construct(frame)
model = BERT4RecModel(
    n_blocks=2,
    n_heads=2,
    n_factors=task.hidden_size,
    session_max_len=task.length,
    batch_size=task.batch,
    mask_prob=task.mask_ratio,
    epochs=task.epochs,
    get_trainer_func=trainer,
)
began = time.perf_counter()
model.fit(dataset)
