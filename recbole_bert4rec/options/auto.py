"""Rules for options that are `auto`, chosen by validation on ml-100k, ml-1m and both Beautys."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.system.constants import OptionValues

_EPOCHS = 40
"""Most epochs if ``epochs`` is ``auto``."""
_DENSE = 100
"""Interactions of an item from which on a log is dense, if it is not small."""
_LARGE_BATCH = 2000
"""Items of a batch on a dense log; on ml-1m 24 epochs of such batches are as good as 40 with 1,000 items."""


class LogSize(NamedTuple):
    """Size of a log."""

    users: int
    items: int
    interactions: int

    @property
    def per_item(self) -> float:
        """Interactions of an item."""
        return self.interactions / max(1, self.items)

    @property
    def is_dense(self) -> bool:
        """Whether items have 100 interactions, and the log 100,000; a smaller one has too few large batches."""
        return self.per_item >= _DENSE and self.interactions >= 50 * _LARGE_BATCH

    def __str__(self) -> str:
        return f"{self.users} users, {self.items} items, {self.interactions} interactions"


def layers(options: OptionValues, size: LogSize) -> int:
    """Stack 4 layers on a dense log, else 2.

    On ml-1m four rank better by 2 % in the validation and the test, three seeds, and take 1.7 times as long.
    """
    return 4 if size.is_dense else 2


def dropout(options: OptionValues, size: LogSize) -> float:
    """Drop .5 at 16 interactions an item, .1 less for each factor of 3 above or below, in steps of .05; at least .1.

    An embedding learnt from more interactions needs less dropout. With fewer interactions there are fewer epochs (see
    :func:`epochs`), in which a model with much dropout learns too little.
    """
    return round(20 * max(0.1, 0.5 - 0.1 * abs(math.log(max(1.0, size.per_item) / 16, 3)))) / 20


def batch_items(options: OptionValues, size: LogSize) -> int:
    """Train on 2,000 items at once on a dense log, else on 1,000."""
    return _LARGE_BATCH if size.is_dense else 1000


def rate(options: OptionValues, size: LogSize) -> float:
    """Train with .001; with .002, but at most .2 / H, if batches have 2,000 items or more."""
    return min(0.002, round(0.2 / options["hidden_size"], 4)) if _has_large_batches(options) else 0.001


def epochs(options: OptionValues, size: LogSize) -> int:
    """Pass 40 times over a log with 14 interactions an item or more, and fewer times, but at least 10, over others.

    Rare items are learnt by heart: on beauty, with 6.5 interactions an item, 40 epochs are past the best one. With 100
    interactions an item and batches of 2,000 items, 24 passes suffice.
    """
    if size.is_dense and _has_large_batches(options):
        return 24
    return max(10, min(_EPOCHS, round(_EPOCHS * size.per_item / 14)))


def _has_large_batches(options: OptionValues) -> bool:
    return options["batch_sequences"] is None and options["train_batch_size"] >= _LARGE_BATCH


def most_epochs(options: OptionValues) -> int:
    """Return how many epochs a training has at most, before the data decide about ``auto``."""
    value: Any = options["epochs"]
    return _EPOCHS if value == AUTO else int(value)


def loss(options: OptionValues, size: LogSize) -> str:
    """Estimate the softmax over more than 10,000 items from a sample; over all of them it takes too long.

    On beauty-5core (12,101 items) a sample of 1,024 is as good in half the time.
    """
    return "sampled_softmax" if size.items > 10_000 else "CE"


def negatives(options: OptionValues, size: LogSize) -> str:
    """Draw by popularity if the loss corrects for it."""
    return "popularity" if options["loss_type"] == "sampled_softmax" else "uniform"


RULES: Mapping[str, Callable[[OptionValues, LogSize], Any]] = {
    "n_layers": layers,
    "train_batch_size": batch_items,
    "learning_rate": rate,
    "epochs": epochs,
    "hidden_dropout_prob": dropout,
    "loss_type": loss,
    "negatives": negatives,
}
"""A rule for each option that may be ``auto``, in the order in which they are applied."""


def settle(options: Any, size: LogSize) -> tuple[str, ...]:
    """Replace ``auto`` in a configuration by values; return the names of these options."""
    automatic = tuple(name for name in RULES if options[name] == AUTO)
    for name in automatic:
        options[name] = RULES[name](options, size)
    return automatic
