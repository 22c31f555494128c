"""What is done with the selected weights beside the test: further protocols, a refit, recommendations to all users."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recbole.config import Config
from recbole.utils import set_color

from recbole_bert4rec.checkpoints import Opened
from recbole_bert4rec.logs.formats import is_table
from recbole_bert4rec.options.auto import most_epochs
from recbole_bert4rec.options.checks import read_options
from recbole_bert4rec.options.user_models import Model, is_ours
from recbole_bert4rec.plugin.callbacks import Callback, Observed
from recbole_bert4rec.plugin.compat import trust
from recbole_bert4rec.plugin.config import Layers, plain_config, stored_config
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.loading import item_tokens
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.split import EVERYTHING
from recbole_bert4rec.plugin.trainer import transitions_of
from recbole_bert4rec.recommend.answers import check_names_of_columns
from recbole_bert4rec.recommend.bulk import write_tables
from recbole_bert4rec.recommend.histories import Histories
from recbole_bert4rec.recommend.ids import Items
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.recommend.torch_backend import TorchBackend
from recbole_bert4rec.system.constants import FOR_THE_USER
from recbole_bert4rec.system.environment import find_config
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import TABLES, check_output, refuse_same
from recbole_bert4rec.training.build import Data, build, load_data, trainer_of
from recbole_bert4rec.training.inputs import configure, refuse_other_models
from recbole_bert4rec.training.ranks import RankLog
from recbole_bert4rec.training.record import counted, in_json
from recbole_bert4rec.training.screen import say, silence


def test_weights(data: Data, weights: str | os.PathLike[str], *callbacks: Callback) -> dict[str, float]:
    """Return the test metrics of trained weights on data whose configuration may be another than their training's."""
    trust(os.fspath(weights))
    trainer = trainer_of(data, callbacks)
    trainer.eval_collector.data_collect(data.train)  # as trainer.fit does
    metrics = trainer.evaluate(data.test, load_best_model=True, model_file=os.fspath(weights))
    return {name: float(value) for name, value in (metrics or {}).items()}


def test_protocols(
    protocols: Mapping[str, Data], weights: str, of_users: list[pd.DataFrame] | None
) -> dict[str, dict[str, float]]:
    """Return the test metrics under each protocol; add the ranks of the users' targets to ``of_users``."""
    results = {}
    for name, data in protocols.items():
        log = RankLog()
        results[name] = test_weights(data, weights, *([] if of_users is None else [log]))
        if of_users is not None:
            of_users.append(log.by_user(name))
    return results


def data_of_protocols(
    files: Sequence[str],
    model: Model | None,
    dataset: str | None,
    layers: Layers,
    opened: Opened | None,
    config: Config,
) -> dict[str, Data]:
    """Read the data of each further protocol, which wins over all options, by the name of its file."""
    found: dict[str, Data] = {}
    for file in files:
        if Path(file).name in found:
            raise UserError(f"--protocols={' '.join(files)} has files of one name, by which a record has their figures")
        protocol = read_options(find_config(file))
        options, flags = (
            {name: value for name, value in layer.items() if name not in protocol}
            for layer in (layers.options, layers.flags)
        )
        options["eval_args"] = {**config["eval_args"], **protocol.get("eval_args", {})}
        changed = replace(layers, files=(*layers.files, protocol), options=options, flags=flags)
        with silence(FOR_THE_USER):  # the run will say of this log what is to be said
            other = configure(model, dataset, changed, opened)
            for name in ("split", "order", "group_by"):
                if other["eval_args"][name] != config["eval_args"][name]:
                    raise UserError(
                        f"--protocols={file}: its {name} is {other['eval_args'][name]}, but the training's is "
                        f"{config['eval_args'][name]}; a model is tested on the split that it was trained on"
                    )
            found[Path(file).name] = load_data(other)
    return found


def wants_refit(config: Config) -> bool:
    """Tell whether the option is set; it is this package's models'."""
    return is_ours(config.model_class) and config["refit"] is not None


def check_afterwards(config: Config, recommend: str | None, k: int, dataset: str | None) -> None:
    """Refuse recommendations or a refit that could not be made at the end."""
    if recommend is not None:
        if k < 1:
            raise UserError(f"--k must be at least 1, but is {k}")
        check_output("--recommend", recommend, TABLES)
        if dataset is not None and is_table(dataset):
            refuse_same("--recommend", recommend, "--dataset", dataset)
        refuse_other_models("--recommend", config.model_class)
        check_names_of_columns(config["USER_ID_FIELD"], config["ITEM_ID_FIELD"])
    if not wants_refit(config):
        return
    split = config["eval_args"]["split"]
    if config["refit"] == "train+valid" and split != {"LS": "valid_and_test"}:
        raise UserError(
            "`refit` train+valid trains with each user's validation item and needs `eval_args` split "
            f"{{'LS': 'valid_and_test'}}, but the split is {split}"
        )
    if config["benchmark_filename"]:
        raise UserError(
            "`refit` splits the whole log again, but `benchmark_filename` gives parts; leave one of them out"
        )
    if not config["single_spec"]:
        raise UserError("`refit` works in one process only; leave --nproc out")
    if most_epochs(config) < 1 or config["eval_step"] < 1:
        raise UserError("`refit` trains for the epochs that validation chose; `epochs` and `eval_step` must be above 0")


def refit(trainer: Any) -> dict[str, Any]:
    """Train again for the selected epochs, on all but the test items, which are tested; or on everything."""
    config, epochs, memory = trainer.config, trainer.best_epoch + 1, trainer.model.memory
    split = EVERYTHING if config["refit"] == "all" else {"LS": "test_only"}
    values = plain_config(config) | {"epochs": epochs, "valid_users": None}
    values["eval_args"] = {**config["eval_args"], "split": split, "group_by": "user"}
    data, again = build(stored_config(values, checkpoint_dir=config["checkpoint_dir"]))
    again.saved_model_file = f"{trainer.saved_model_file.removesuffix('.pth')}.refit.pth"
    say(f"refit   on {config['refit']}, for {counted(epochs)}")
    again.fit(data.train, saved=False, show_progress=config["show_progress"])
    if memory is not None:
        again.model.memory = replace(memory, transitions=transitions_of(data.train._dataset))
    again._save_checkpoint(epochs - 1)
    result = again.evaluate(data.test, load_best_model=True, show_progress=config["show_progress"])
    getLogger().info(set_color(f"refit on {config['refit']}, test result", "yellow") + f": {result}")
    return {"epochs": epochs, "test_result": in_json(result or {}), "checkpoint": again.saved_model_file}


def recommender_of(model: BERT4Rec, dataset: BERT4RecDataset) -> Recommender:
    """Return a trained model with the whole history of every user, valid and test included."""
    whole = dataset.all_histories()
    users = np.array(whole["users"], dtype=object)
    histories = Histories(users, whole["items"].numpy(), whole["offsets"].numpy())
    options, items = dataset.config.final_config_dict, Items(item_tokens(dataset))
    return Recommender(TorchBackend(model.eval(), dataset.training_counts()), items, options, histories)


def write_recommendations(data: Data, trainer: Observed, path: str, k: int) -> None:
    """Write user, item, rank (from 1) and score of all users' best next items."""
    recommender = recommender_of(trainer.model, data.train._dataset)
    getLogger().info(f"recommending: {recommender.viewed.why}")
    table = recommender.recommend(k=k)
    write_tables([table], path)
    say(f"up to {k} items for each of {table[recommender.fields[0]].nunique()} users written to {path}")
