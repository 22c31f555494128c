"""RePlay's Bert4Rec, its own defaults but for the sizes of the task."""

import lightning
import pandas as pd
import replay
from common import Stopwatch, Task
from replay.data import FeatureHint, FeatureType
from replay.data.nn import PandasSequentialDataset, TensorFeatureInfo, TensorFeatureSource, TensorSchema
from replay.data.schema import FeatureSource
from replay.models.nn.sequential.bert4rec import Bert4Rec, Bert4RecTrainingDataset
from torch.utils.data import DataLoader

task, watch = Task(), Stopwatch(replay.__version__)


class Timing(lightning.Callback):
    def on_train_epoch_start(self, *_):
        watch.start()

    def on_train_batch_start(self, trainer, module, batch, index):
        watch.count((batch["pad_mask"] & ~batch["token_mask"]).sum())

    def on_train_epoch_end(self, *_):
        watch.stop()


item = TensorFeatureInfo(
    name="item",
    feature_type=FeatureType.CATEGORICAL,
    is_seq=True,
    feature_hint=FeatureHint.ITEM_ID,
    feature_sources=[TensorFeatureSource(FeatureSource.INTERACTIONS, "item")],
    cardinality=task.n_items,
    embedding_dim=task.hidden_size,
)
schema = TensorSchema(item)
frame = pd.DataFrame({"user": range(len(task.histories)), "item": [history - 1 for history in task.histories]})
data = PandasSequentialDataset(schema, "user", "item", frame)
loader = DataLoader(Bert4RecTrainingDataset(data, task.length, mask_prob=task.mask_ratio), task.batch, shuffle=True)
sizes = {"block_count": 2, "head_count": 2, "hidden_size": task.hidden_size, "max_seq_len": task.length}
model = Bert4Rec(schema, dropout_rate=0.2, **sizes)
quiet = dict.fromkeys(("enable_progress_bar", "logger", "enable_checkpointing", "enable_model_summary"), False)
accelerator = "gpu" if task.device == "cuda" else "cpu"
trainer = lightning.Trainer(max_epochs=task.epochs, accelerator=accelerator, callbacks=[Timing()], **quiet)
trainer.fit(model, loader)
