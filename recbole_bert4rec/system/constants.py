"""Names and ids that every room of the package shares.

Legend of the dimensions used in all shape comments:
B batch (sequences), L length of the padded batch, H hidden size, A attention heads, I inner size,
N items including padding, M masked positions of a batch, K negatives of a batch, C candidates of a row,
T interactions in all, U users including padding, S sequences or segments, R rows of an evaluation, W windows,
P (row, item) pairs, Q query positions, G groups. `experiments/significance.py` has a legend of its own.
"""

from __future__ import annotations

from typing import Any, Protocol

PADDING = 0
"""Internal id of "no item" (RecBole's [PAD]); real items are 1..N-1 and the mask token is N."""

MODEL_NAME = "BERT4Rec"
OUR_MODELS = (MODEL_NAME, "BERT4RecPlus", "SASRecPlus")
"""One class under three names: the paper's objective, two-sided and next-item training, the causal rival. They differ
in their defaults."""

DEFAULT_NAMES = {"model": MODEL_NAME, "dataset": "ml-100k"}
"""Model and data set of a run that names none."""

STOCK_MODEL_NAME = "RecBoleBERT4Rec"
"""Name under which RecBole's own BERT4Rec stays runnable, as a baseline."""

TARGET_POSITION = "target_position"
"""Column of our datasets: index of a row's target in the flat item array (its history ends just before)."""

SEQUENCE = "sequence"
"""Column of benchmark files' datasets: the sequence a row points into; elsewhere that is the user's."""

SUPPORTED_RECBOLE = "1.2.1"
INSTALL_RECBOLE = f"pip install --no-deps recbole=={SUPPORTED_RECBOLE}"
"""Without RecBole's own requirements: they allow no Ray after 2.6.3, which Python 3.12 cannot install."""

UNCALIBRATED_LOSSES = ("BCE", "gBCE")
"""Losses that do not correct for how negatives are drawn."""

SAMPLED_LOSSES = ("sampled_softmax", *UNCALIBRATED_LOSSES)
"""Losses for which all labels of a batch share the negatives that are drawn."""

LOSSES = ("CE", "BPR", *SAMPLED_LOSSES)
"""All values of ``loss_type``."""

ABLATABLE = ("residual", "layer_norm", "feed_forward")
"""Parts that ``ablate`` can take out of the layers, for the paper's Table 5."""

NAMES_OF_COLUMNS = ("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD")
"""Options that name the columns of a log."""

FORMATS = ".csv, .tsv, .txt, .dat, .data, .jsonl, .ndjson or .json file (or .gz), a .parquet file or a folder of them"
"""Forms of a log, in words."""

SHORT, VERBOSE, QUIET = SCREENS = ("short", "verbose", "quiet")
"""Choices of lines on the screen: a line an epoch and a few others; all that RecBole logs; warnings alone."""

TOOLS = ("Hyperopt", "Ray")
ALGORITHMS = ("exhaustive", "random", "bayes")
SCHEDULERS = ("none", "asha", "median")
"""What runs the trials of a search, how trials are proposed, and how Ray stops hopeless ones early."""

FOR_THE_USER = "recbole_bert4rec"
"""Name of the logger whose lines the screen shows; RecBole's go to the root logger and with it to the log file."""


class OptionValues(Protocol):
    """Options with their values, such as RecBole's configuration or a dictionary."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of an option."""
        ...
