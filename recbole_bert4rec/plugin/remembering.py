"""Gives a trained model its memory: counts what followed what in training, and lets validation weigh it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scipy.sparse import csr_array

from recbole_bert4rec.core.memory import Memory, count_transitions
from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.plugin.dataset import BERT4RecDataset

_WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)


class Validation(NamedTuple):
    """A validation of a model.

    Attributes:
        score: higher is better.
        metrics: values by RecBole's names.
    """

    score: float
    metrics: dict[str, float]


def transitions_of(training: BERT4RecDataset) -> csr_array:
    """Count what follows what in the training part of the histories."""
    _, begin, length = training.slices()
    sequences = training.sequences.slices(begin, length)
    return count_transitions(sequences.items.numpy(), sequences.offsets.numpy(), training.item_num)


def fit_memory(model: Ranker, transitions: csr_array, validate: Callable[[], Validation]) -> list[Validation]:
    """Give a model a memory with the weight of the best validation score, or none if the model alone has it.

    The validations of the model alone, and with its memory, are returned.
    """
    model.memory = memory = None
    alone = best = validate()
    for weight in _WEIGHTS:
        model.memory = Memory(transitions, weight)
        validation = validate()
        if validation.score > best.score:
            best, memory = validation, model.memory
    model.memory = memory
    return [alone, best]
