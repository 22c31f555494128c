"""Training once more with the validation items, for as long as validation chose; the authors always train with them."""

from __future__ import annotations

from collections.abc import Callable
from logging import getLogger
from typing import Any

from recbole.config import Config
from recbole.utils import set_color

from recbole_bert4rec.constants import MODEL_NAME
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.plugin import checkpoint
from recbole_bert4rec.training.record import finite_values


def wants_refit(config: Config) -> bool:
    """Whether the option is set; it is BERT4Rec's."""
    return config["model"] == MODEL_NAME and config["refit"] is not None


def check_refit(config: Config) -> None:
    """Raise where there is no validation item to train with.

    Raises:
        UserError: so it is.
    """
    if not wants_refit(config):
        return
    if config["eval_args"]["split"] != {"LS": "valid_and_test"}:
        raise UserError(
            "`refit` trains with each user's validation item and needs `eval_args` split {'LS': 'valid_and_test'}, but "
            f"the split is {config['eval_args']['split']}"
        )
    if config["benchmark_filename"]:
        raise UserError(
            "`refit` splits the whole log anew, but `benchmark_filename` gives parts; leave one of them out"
        )
    if not config["single_spec"]:
        raise UserError("`refit` works in one process only; leave --nproc out")
    if config["epochs"] < 1 or config["eval_step"] < 1:
        raise UserError("`refit` trains for the epochs that validation chose; `epochs` and `eval_step` must be above 0")


def refit(config: Config, epochs: int, prepared: Callable[[Config], tuple[Any, Any, Any]]) -> dict[str, Any]:
    """Train anew on all but the test items and test.

    Args:
        config: of the run that was selected.
        epochs: that it was selected after; the learning rate falls over so many.
        prepared: makes trainer, interactions and loaders.

    Returns:
        ``epochs``, ``test_result`` and ``checkpoint``.
    """
    values = checkpoint.plain_config(config)
    values["eval_args"] = {**config["eval_args"], "split": {"LS": "test_only"}}
    values["valid_users"] = None
    config = checkpoint.StoredConfig({**values, "epochs": epochs}, checkpoint_dir=config["checkpoint_dir"])
    trainer, _, loaders = prepared(config)
    show = config["show_progress"]
    trainer.fit(loaders[0], saved=False, show_progress=show)
    trainer._save_checkpoint(epochs - 1)
    result = trainer.evaluate(loaders[2], load_best_model=True, show_progress=show)
    getLogger().info(set_color("refit on train+valid, test result", "yellow") + f": {result}")
    return {"epochs": epochs, "test_result": finite_values(result), "checkpoint": str(trainer.saved_model_file)}
