"""RecTools' BERT4RecModel or SASRecModel, validated after every epoch."""

import json
import time

import numpy as np
import rectools
from common import Task
from pytorch_lightning import Callback
from rectools import Columns
from rectools_model import dataset_of, model_of

task = Task()
with np.load(task.sequences) as file:
    items, lengths, targets = file["items"], file["lengths"], file["targets"]


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


dataset = dataset_of(np.split(items, np.cumsum(lengths)[:-1]))
model = model_of(task, Validation())
began = time.perf_counter()
model.fit(dataset)
