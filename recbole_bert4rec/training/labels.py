"""Refuses, for any model, what asks for labels that the data do not have, or judges labelled rows as rankings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recbole.trainer import PretrainTrainer
from recbole.utils import EvaluatorType

from recbole_bert4rec.system.errors import UserError, short_list

if TYPE_CHECKING:
    from recbole_bert4rec.training.build import Data, Experiment

_MENDED = "name it in load_col, or derive it from another column with threshold, such as {'rating': 4}"


def check_labelled_phases(experiment: Experiment) -> None:
    """Refuse, before hours of training, a validation or test in mode labeled that could only end in an exception.

    Raises:
        UserError: the metrics are of rankings, or the data have no labels.
    """
    data, trainer = experiment.data, experiment.trainer
    validates = trainer.eval_step > 0 and not isinstance(trainer, PretrainTrainer)
    phases = {"valid": data.valid if validates else None, "test": data.test}
    modes = data.config["eval_args"]["mode"]
    labelled = [loader for phase, loader in phases.items() if loader and modes[phase] == "labeled"]
    if labelled and data.config["eval_type"] == EvaluatorType.RANKING:
        raise UserError(
            "`eval_args` mode labeled judges single scores and needs `metrics` such as AUC and LogLoss, but they are "
            f"{short_list(data.config['metrics'])}; these need mode full or uni100 (any number)"
        )
    label = data.config["LABEL_FIELD"]
    if data.config["transform"] is None and any(label not in loader._dataset[[0]] for loader in labelled):
        raise UserError(
            f"mode labeled needs a column {label!r} (LABEL_FIELD): {_MENDED}; without labels, rank: `eval_args` mode "
            "full or uni100 (any number), with `metrics` such as NDCG"
        )


@contextmanager
def labels_found(data: Data) -> Iterator[None]:
    """Run a training or an evaluation, which may read labels.

    Raises:
        UserError: it does, and the data have none.
    """
    try:
        yield
    except KeyError as error:
        label = data.config["LABEL_FIELD"]
        if error.args != (label,) or label in data.train._dataset[[0]]:
            raise
        raise UserError(
            f"{data.config['model']} learns from a column {label!r} (LABEL_FIELD), which the data do not have: "
            f"{_MENDED}, or have negatives drawn: train_neg_sample_args {{'distribution': 'uniform'}}"
        ) from error
