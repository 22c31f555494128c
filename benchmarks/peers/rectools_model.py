"""RecTools' data, and its BERT4RecModel or SASRecModel with its own defaults but for the sizes of the task."""

import pandas as pd
from pytorch_lightning import Trainer
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import BERT4RecModel, SASRecModel


def dataset_of(histories):
    """Interactions of users 0, 1, ... in the order of their histories."""
    rows = [(user, item, place) for user, history in enumerate(histories) for place, item in enumerate(history)]
    frame = pd.DataFrame(rows, columns=[Columns.User, Columns.Item, Columns.Datetime])
    frame[Columns.Datetime] = pd.to_datetime(frame[Columns.Datetime], unit="s")
    frame[Columns.Weight] = 1
    return Dataset.construct(frame)


def model_of(task, callback):
    """The model of a task; the callback hears of its training."""

    def trainer():
        quiet = dict.fromkeys(("enable_progress_bar", "logger", "enable_checkpointing", "enable_model_summary"), False)
        return Trainer(
            max_epochs=task.epochs, accelerator="gpu" if task.device == "cuda" else "cpu", callbacks=[callback], **quiet
        )

    sizes = {"n_blocks": 2, "n_heads": 2, "n_factors": task.hidden_size, "session_max_len": task.length}
    shared = {**sizes, "batch_size": task.batch, "epochs": task.epochs, "get_trainer_func": trainer}
    if task.architecture == "SASRec":
        return SASRecModel(**shared)
    return BERT4RecModel(mask_prob=task.mask_ratio, **shared)
