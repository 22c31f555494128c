"""Refuses, for any model, runs that need labels the data do not have, or that judge labelled rows as rankings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.trainer import PretrainTrainer, Trainer
from recbole.utils import EvaluatorType

from recbole_bert4rec.system.errors import UserError, short_list

_MENDED = "name it in load_col, or derive it from another column with threshold, such as {'rating': 4}"


def check_labelled_phases(trainer: Trainer, valid: AbstractDataLoader, test: AbstractDataLoader) -> None:
    """Refuse, before hours of training, a validation or test in mode labeled that could only end in an exception.

    Args:
        trainer: which validates, or does not.
        valid: loader of the validation part.
        test: loader of the test part.

    Raises:
        UserError: the metrics are of rankings, or the data have no labels.
    """
    config = trainer.config
    validates = trainer.eval_step > 0 and not isinstance(trainer, PretrainTrainer)
    phases = {"valid": valid if validates else None, "test": test}
    modes = config["eval_args"]["mode"]
    labelled = [loader for phase, loader in phases.items() if loader and modes[phase] == "labeled"]
    if labelled and config["eval_type"] == EvaluatorType.RANKING:
        raise UserError(
            "`eval_args` mode labeled judges single scores and needs `metrics` such as AUC and LogLoss, but they are "
            f"{short_list(config['metrics'])}; these need mode full or uni100 (any number)"
        )
    label = config["LABEL_FIELD"]
    if config["transform"] is None and any(label not in loader._dataset[[0]] for loader in labelled):
        raise UserError(
            f"mode labeled needs a column {label!r} (LABEL_FIELD): {_MENDED}; without labels, rank: `eval_args` mode "
            "full or uni100 (any number), with `metrics` such as NDCG"
        )


@contextmanager
def labels_found(config: Config, train: AbstractDataLoader) -> Iterator[None]:
    """Run a training or an evaluation, which may read labels.

    Raises:
        UserError: it reads labels, but the data have none.
    """
    try:
        yield
    except KeyError as error:
        label = config["LABEL_FIELD"]
        if error.args != (label,) or label in train._dataset[[0]]:
            raise
        raise UserError(
            f"{config['model']} learns from a column {label!r} (LABEL_FIELD), which the data do not have: "
            f"{_MENDED}, or have negatives drawn: train_neg_sample_args {{'distribution': 'uniform'}}"
        ) from error
