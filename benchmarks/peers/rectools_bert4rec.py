"""RecTools' BERT4RecModel, timed."""

import rectools
from common import Stopwatch, Task
from pytorch_lightning import Callback
from rectools_model import dataset_of, model_of

task, watch = Task(), Stopwatch(rectools.__version__)


class Timing(Callback):
    def on_train_epoch_start(self, *_):
        watch.start()

    def on_train_batch_start(self, trainer, module, batch, index):
        watch.count((batch["y"] != 0).sum())

    def on_train_epoch_end(self, *_):
        watch.stop()


model_of(task, Timing()).fit(dataset_of(task.histories))
