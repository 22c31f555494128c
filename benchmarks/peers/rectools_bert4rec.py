"""RecTools' BERT4RecModel, its own defaults but for the sizes of the task."""

import pandas as pd
import rectools
from common import Stopwatch, Task
from pytorch_lightning import Callback, Trainer
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import BERT4RecModel

task, watch = Task(), Stopwatch(rectools.__version__)


class Timing(Callback):
    def on_train_epoch_start(self, *_):
        watch.start()

    def on_train_batch_start(self, trainer, module, batch, index):
        watch.count((batch["y"] != 0).sum())

    def on_train_epoch_end(self, *_):
        watch.stop()


def trainer():
    quiet = dict.fromkeys(("enable_progress_bar", "logger", "enable_checkpointing", "enable_model_summary"), False)
    return Trainer(max_epochs=task.epochs, accelerator="cpu", callbacks=[Timing()], **quiet)


rows = [(user, item, place) for user, history in enumerate(task.histories) for place, item in enumerate(history)]
frame = pd.DataFrame(rows, columns=[Columns.User, Columns.Item, Columns.Datetime])
frame[Columns.Datetime] = pd.to_datetime(frame[Columns.Datetime], unit="s")
frame[Columns.Weight] = 1
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
model.fit(Dataset.construct(frame))
