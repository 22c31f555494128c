"""Training once more with the validation items, for as many epochs as validation chose, as the authors do."""

from __future__ import annotations

from dataclasses import replace
from logging import getLogger
from typing import cast

from recbole.config import Config
from recbole.utils import set_color

from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.options.auto import most_epochs
from recbole_bert4rec.options.user_models import is_ours
from recbole_bert4rec.plugin.config import plain_config, stored_config
from recbole_bert4rec.plugin.trainer import transitions_of
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.build import build
from recbole_bert4rec.training.epochs import finite_values
from recbole_bert4rec.training.record import RefitRecord


def wants_refit(config: Config) -> bool:
    """Tell whether the option is set; it is this package's models'."""
    return is_ours(config.model_class) and config["refit"] is not None


def check_refit(config: Config) -> None:
    """Refuse ``refit`` if there is no validation item to train with."""
    if not wants_refit(config):
        return
    if config["eval_args"]["split"] != {"LS": "valid_and_test"}:
        raise UserError(
            "`refit` trains with each user's validation item and needs `eval_args` split {'LS': 'valid_and_test'}, but "
            f"the split is {config['eval_args']['split']}"
        )
    if config["benchmark_filename"]:
        raise UserError(
            "`refit` splits the whole log again, but `benchmark_filename` gives parts; leave one of them out"
        )
    if not config["single_spec"]:
        raise UserError("`refit` works in one process only; leave --nproc out")
    if most_epochs(config) < 1 or config["eval_step"] < 1:
        raise UserError("`refit` trains for the epochs that validation chose; `epochs` and `eval_step` must be above 0")


def refit(config: Config, epochs: int, memory: Memory | None) -> RefitRecord:
    """Train again, on all but the test items, and test."""
    values = plain_config(config)
    values["eval_args"] = {**config["eval_args"], "split": {"LS": "test_only"}}
    values["valid_users"] = None
    experiment = build(
        stored_config({**values, "epochs": epochs}, checkpoint_dir=config["checkpoint_dir"]), count_flops=True
    )
    data, trainer, show = experiment.data, experiment.trainer, config["show_progress"]
    trainer.fit(data.train, saved=False, show_progress=show)
    if memory is not None:
        cast(Ranker, trainer.model).memory = replace(memory, transitions=transitions_of(data.train._dataset))
    trainer._save_checkpoint(epochs - 1)
    result = trainer.evaluate(data.test, load_best_model=True, show_progress=show)
    getLogger().info(set_color("refit on train+valid, test result", "yellow") + f": {result}")
    return {"epochs": epochs, "test_result": finite_values(result), "checkpoint": str(trainer.saved_model_file)}
