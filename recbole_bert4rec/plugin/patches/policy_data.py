"""Data of RecBole's models in our programs: conversions, splits, candidates, whole windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import recbole.data.dataset
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.dataset import Dataset

from recbole_bert4rec.logs.atomic import load_interactions
from recbole_bert4rec.options.user_models import parent_of
from recbole_bert4rec.plugin.baselines import (
    CAUSAL_MODELS,
    UserRowsDataLoader,
    has_user_rows,
    loss_of_windows,
    score_candidates,
)
from recbole_bert4rec.plugin.candidates import create_samplers
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loading import FastLoading, check_filters, reading
from recbole_bert4rec.plugin.patches.patch import policy, unless_ours
from recbole_bert4rec.plugin.patches.registration import is_of_this_package
from recbole_bert4rec.plugin.split import (
    build_by_global_time,
    splits_by_global_time,
)
from recbole_bert4rec.system.scoped import added


def create_dataset(original: Callable[[Config], Dataset], config: Config) -> Dataset:
    """Make the data set of whole windows, or of the parent of a user's own model."""
    home, name = recbole.data.dataset, f"{config['model']}Dataset"
    dataset_class = getattr(home, f"{parent_of(config.model_class)}Dataset", None)
    dataset_class = BERT4RecDataset if has_user_rows(config) else dataset_class
    if dataset_class is None or hasattr(home, name):
        return original(config)
    with added(home, name, dataset_class):
        return original(config)


def get_dataloader(
    original: Callable[[Config, str], type[AbstractDataLoader]], config: Config, phase: str
) -> type[AbstractDataLoader]:
    """Return the loader of whole windows, or that of the parent of a user's own model."""
    if phase == "train" and not is_of_this_package(config) and has_user_rows(config):
        return UserRowsDataLoader
    if is_of_this_package(config):
        return original(config, phase)
    model = config["model"]
    config["model"] = parent_of(config.model_class)  # RecBole has a table by names
    try:
        return original(config, phase)
    finally:
        config["model"] = model


def samplers_of_others(
    original: Callable[..., Any], config: Config, dataset: Dataset, built_datasets: list[Dataset]
) -> Any:
    """Draw the paper's candidates for RecBole's models, too."""
    if is_of_this_package(config):
        return original(config, dataset, built_datasets)
    return create_samplers(original, config, dataset, built_datasets)


def build_dataset(original: Callable[[Dataset], list[Dataset]], self: Dataset) -> list[Dataset]:
    """Split at one moment for all users if the protocol asks for it."""
    return build_by_global_time(self) if splits_by_global_time(self) else original(self)


def read_file(original: Callable[..., Any], self: Dataset, filepath: str, source: Any) -> Any:
    """Read an atomic file with all its rows and ids."""
    with reading(self, filepath):
        return original(self, filepath, source)


def filter_by_field_value(original: Callable[[Dataset], None], self: Dataset) -> None:
    """Filter by values, once they are checked."""
    check_filters(self)
    original(self)


PATCHES = (
    policy(
        "recbole.data.utils",
        "create_dataset",
        create_dataset,
        "RecBole finds a data set by the name of the model (data/utils.py:42).",
    ),
    policy(
        "recbole.data.utils",
        "get_dataloader",
        get_dataloader,
        "`training_rows: user` trains RecBole's causal models on whole windows (data/utils.py:241).",
    ),
    policy(
        "recbole.data.utils",
        "create_samplers",
        samplers_of_others,
        "`candidates: paper` draws the paper's candidates, for any model (data/utils.py:333).",
    ),
    policy(
        "recbole.data.dataset.dataset:Dataset",
        "_load_inter_feat",
        unless_ours(FastLoading, load_interactions),
        "Where there is no NAME.inter, NAME.inter.gz is read; another conversion of a log than the run began with is "
        "refused (dataset.py:277).",
    ),
    policy(
        "recbole.data.dataset.dataset:Dataset",
        "_load_feat",
        unless_ours(FastLoading, read_file),
        "A quote in a value swallows the rows up to the next one; of a converted log, RecBole drops ids such as NA and "
        "None (dataset.py:486).",
    ),
    policy(
        "recbole.data.dataset.dataset:Dataset",
        "_filter_by_field_value",
        unless_ours(FastLoading, filter_by_field_value),
        "A list of values for a column of numbers filters nothing, and loses one row (dataset.py:1043).",
    ),
    policy(
        "recbole.data.dataset.dataset:Dataset",
        "build",
        unless_ours(BERT4RecDataset, build_dataset),
        "RecBole has no split at one moment for all users (dataset.py:1868).",
    ),
    policy(
        "recbole.trainer.trainer:Trainer",
        "_neg_sample_batch_eval",
        score_candidates,
        "RecBole encodes a history once for each of a user's candidates, 101 times with the paper's (trainer.py:542).",
    ),
    *(
        policy(
            f"recbole.model.sequential_recommender.{name.lower()}:{name}",
            "calculate_loss",
            loss_of_windows,
            "`training_rows: user` gives whole sequences; RecBole's loss takes rows with one label (sasrec.py:116).",
        )
        for name in CAUSAL_MODELS
    ),
)
