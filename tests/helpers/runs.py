"""Configurations, loaders and trainers, made as a run makes them."""

from __future__ import annotations

from typing import Any

from recbole.config import Config

from recbole_bert4rec.plugin.build import make_model
from recbole_bert4rec.plugin.build import make_trainer as make_trainer_of
from recbole_bert4rec.plugin.callbacks import Callback, RankedBatch, StopTraining
from recbole_bert4rec.plugin.config import Layers, PluginConfig
from recbole_bert4rec.training import build
from recbole_bert4rec.training.inputs import configure, opened_checkpoint, user_layers

QUIET = {"show_progress": False, "state": "error", "use_gpu": False}


MRR_OF_3 = {"topk": [3], "metrics": ["MRR"], "valid_metric": "MRR@3"}


def make_config(model: Any = "BERT4Rec", dataset: str = "ml-100k", **options: Any) -> PluginConfig:
    return PluginConfig(model, dataset, Layers(options={**QUIET, **options}))


def configured(
    model: Any = None, dataset: str | None = None, resume: Any = None, files: Any = (), **options: Any
) -> Config:
    """The configuration of a run that is asked for by these arguments."""
    layers = user_layers(options, files, {})
    return configure(model, dataset, layers, opened_checkpoint(resume, model, dataset, layers))


def prepare(config: Config) -> tuple[Any, Any, Any, Any]:
    """The whole data set and its three loaders, made as a run makes them."""
    data = build.load_data(config)
    return data.dataset, data.train, data.valid, data.test


def make_trainer(config: Config, train_data: Any, *callbacks: Callback) -> Any:
    return make_trainer_of(config, make_model(config, train_data), callbacks)


class Rankings(Callback):
    """The best items of each user, as an evaluation ranks them."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.of_user: dict[int, list[int]] = {}

    def on_test_begin(self, trainer: Any, loader: Any) -> None:
        trainer.ranker.depth = self.depth

    def on_ranking_end(self, trainer: Any, ranked: RankedBatch) -> None:
        users = ranked.interaction["user_id"].tolist()
        self.of_user |= dict(zip(users, ranked.scores.items.tolist(), strict=True))


class StopAfter(Callback):
    """Ends training after an epoch, at an event."""

    def __init__(self, last: int, event: str = "on_selection_end") -> None:
        self.last, self.event = last, event

    def on_epoch_end(self, trainer: Any, epoch: int, loss: Any) -> None:
        if self.event == "on_epoch_end" and epoch == self.last:
            raise StopTraining

    def on_selection_end(self, trainer: Any, epoch: int, score: float) -> None:
        if self.event == "on_selection_end" and epoch == self.last:
            raise StopTraining(f"epoch {epoch} is enough")


def arguments(options: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The arguments of a run, without a word on the screen but those for the user."""
    options = {**QUIET, **options, **more}
    return {"dataset": options.pop("dataset"), "options": options}
