"""The table of options: the only place for the default, allowed values, treatment and meaning of each.

A row is ``opt(default, kind, words)(help)``, with one word of :data:`SOURCES` and any of :data:`WORDS`. To add an
option, add a row and the code that uses it; then run ``make pages``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from recbole_bert4rec.options.kinds import (
    AUTO,
    SWITCH,
    Kind,
    anything,
    lists,
    one_of,
    or_auto,
    or_null,
    real,
    some_of,
    whole,
)
from recbole_bert4rec.system.constants import ABLATABLE, LOSSES, OUR_MODELS, SAMPLED_LOSSES

SOURCES = {
    "paper": "Sun et al., CIKM 2019",
    "authors": "their code",
    "RecBole": "1.2.1",
    "validation": "chosen by validation NDCG@10 on ml-100k, ml-1m or beauty-5core",
    "ours": "decided without a comparison",
    "off": "the paper has no such part",
}
"""Words for where a default comes from."""

WORDS = {
    "shared": "other models of RecBole have it, too; without this word it has no effect on them",
    "all": "RecBole does not have it, but all models follow it",
    "fixed": "a resumed run must have the checkpoint's value: it shapes the weights or the optimizer's state",
    "protocol": "a resumed run must have the checkpoint's value while epochs are left: it decides which one is best",
    "data": "a saved data set or loader must have been made with the same value",
    "same": "in comparisons all models have BERT4Rec's value",
    "decided": "in comparisons the comparison sets it",
    "single": "not for comparisons, only for a single run",
    "unsearched": "a search must not vary it",
    "inert": "results do not depend on it",
}
"""Words for how an option is treated."""


RECBOLES = "RecBole's"
"""Stands for RecBole's own default, which our property file leaves out."""
Needs = tuple[str, tuple[str, ...]]
"""Another option, and the values that it needs for an option to have an effect."""


@dataclass(frozen=True)
class Option:
    """A row of the table; ``needs`` is None for an option that always has an effect."""

    default: Any
    kind: Kind
    words: frozenset[str]
    needs: Needs | None
    help: str


def opt(default: Any, kind: Kind, words: str, needs: Needs | None = None) -> Callable[[str], Option]:
    """Begin a row, which its help completes."""
    if unknown := {*words.split()} - {*SOURCES, *WORDS}:
        raise ValueError(f"the table of options has no word {unknown}")
    return lambda text: Option(default, kind, frozenset(words.split()), needs, text)


def recboles(kind: Kind, words: str) -> Callable[[str], Option]:
    """Begin the row of an option that every model of RecBole has, with RecBole's default."""
    return opt(RECBOLES, kind, f"RecBole shared {words}")


def of_log(kind: Kind, default: Any = None) -> Callable[[str], Option]:
    """Begin the row of an option, for every model, of how a log is read."""
    return opt(default, kind, "ours all unsearched inert")


_CLIPPING = Kind(
    "a dictionary such as {'max_norm': 5.0}",
    lambda value: (
        isinstance(value, dict)
        and {"max_norm"} <= {*value} <= {"max_norm", "norm_type"}  # what torch's clip_grad_norm_ takes
        and all(map(real(0, brackets="()").accepts, value.values()))
    ),
)
_CLOZE: Needs = ("objective", ("cloze",))
_SAMPLED: Needs = ("loss_type", SAMPLED_LOSSES)

_ENCODER: dict[str, Option] = {
    "hidden_size": opt(64, whole(1), "paper shared fixed")(
        "H, the size of embeddings and hidden states; divisible by n_heads."
    ),
    "inner_size": opt(256, whole(1), "paper shared fixed")("Size of the feed-forward layer, 4 H in the paper."),
    "n_layers": opt(2, or_auto(whole(1)), "paper shared fixed")(
        "Number of Transformer layers. auto: 4 on dense logs (100 interactions an item, 100,000 in all), else 2."
    ),
    "n_heads": opt(2, whole(1), "paper shared fixed")("Number of attention heads."),
    "MAX_ITEM_LIST_LENGTH": opt(200, whole(2), "validation shared fixed")(
        "Longest input; of a longer history the model sees the latest items, or a window in training."
    ),
    "hidden_act": opt("gelu", one_of("gelu", "relu", "swish", "tanh", "sigmoid"), "paper shared fixed")(
        "Activation of the feed-forward layer."
    ),
    "layer_norm_eps": opt(1e-12, real(0, brackets="()"), "authors shared fixed")(
        "Number added to the variance in LayerNorm."
    ),
    "norm": opt("post", one_of("post", "pre"), "paper fixed")(
        "LayerNorm after each sublayer (post), or before each and once at the end (pre)."
    ),
    "position": opt("relative", one_of("start", "end", "none", "relative"), "validation fixed")(
        "Count positions from the start of the window (paper), from its end (some seeds stay on the first plateau), or "
        "not at all (the paper's Table 5); relative: a bias of attention for each distance (T5)."
    ),
    "ablate": opt([], some_of(*ABLATABLE), "paper fixed")(
        "Parts of the layers to leave out: residual, layer_norm, feed_forward (the paper's Table 5)."
    ),
    "output_projection": opt(False, SWITCH, "validation fixed")(
        "Project hidden states before they are multiplied with the items' embeddings (equation 7), or not."
    ),
    "selected_features": opt([], lists("columns of the .item file, such as ['class']"), "off shared fixed")(
        "Columns of the .item file: embeddings of categories are added to the item's at the input; numbers are used "
        "like item_vectors."
    ),
    "item_vectors": opt([], lists("files, such as ['titles.parquet']", alone=True), "off")(
        "Files with a vector of each item, .parquet or .npy: contents of items, used at the input and the output, most "
        "of all for rare items; items without an interaction can be recommended."
    ),
    "initializer_range": opt(0.02, real(0, brackets="()"), "paper shared")(
        "Standard deviation of the truncated normal initialisation."
    ),
    "value_init": opt("identity", one_of("identity", "random"), "validation")(
        "Start attention as an average of its inputs (identity), which ends the plateau at the start of training; "
        "random: as all other weights (paper)."
    ),
    "bias_init": opt("frequency", one_of("frequency", "zero"), "validation")(
        "Start the output bias at the logarithm of the items' frequencies, or at zero (paper)."
    ),
}

_TASK: dict[str, Option] = {
    "objective": opt("cloze", one_of("cloze", "next", "prefix"), "paper fixed data")(
        "cloze: masked items from both sides (paper); next: every position, which sees what is before it, predicts the "
        "item after it (SASRec); prefix: the same after a random beginning that is seen from both sides."
    ),
    "prefix_share": opt(0.5, real(0, 1, "[]"), "validation", ("objective", ("prefix",)))(
        "Probability that a sequence has a two-sided beginning, with objective prefix; the others are causal."
    ),
    "mask_ratio": opt(0.2, real(0, 1, "(]"), "paper shared", _CLOZE)(
        "rho, the share of items to mask (0.2 is the paper's for ML-1M)."
    ),
    "ft_ratio": opt(0.1, real(0, 1, "[]"), "validation shared", _CLOZE)(
        "Probability that a sequence masks its last item only, as in a test."
    ),
    "mask_count": opt("bernoulli", one_of("bernoulli", "exact"), "RecBole", _CLOZE)(
        "bernoulli: mask each item with probability rho; exact: mask max(1, round(rho n)) items of n."
    ),
    "mask_random_share": opt(0.0, real(0, 1, "[]"), "authors", _CLOZE)(
        "Share of masked items that show a random item instead of [MASK]."
    ),
    "mask_keep_share": opt(0.0, real(0, 1, "[]"), "authors", _CLOZE)("Share of masked items that show themselves."),
    "transform": opt(None, or_null(one_of("mask_itemseq")), "ours shared")(
        "RecBole's mask_itemseq means the same as null: masks are drawn in the loss."
    ),
    "loss_type": opt(AUTO, or_auto(one_of(*LOSSES)), "validation shared")(
        "CE: softmax over all items; sampled_softmax, BCE, gBCE: for huge catalogues; BPR: for each masked item one "
        "negative from outside its sequence."
    ),
    "n_negatives": opt(1024, whole(1), "validation", _SAMPLED)(
        "Number of negatives that the masked items of a batch share, with sampled_softmax, BCE and gBCE."
    ),
    "negatives": opt(AUTO, or_auto(one_of("uniform", "popularity")), "ours", _SAMPLED)(
        "How negatives are drawn; by popularity only with sampled_softmax."
    ),
    "gbce_t": opt(0.75, real(0, 1, "[]"), "ours", ("loss_type", ("gBCE",)))(
        "Calibration t of gBCE (Petrov and Macdonald, RecSys 2023): 0 is BCE, 1 predicts probabilities."
    ),
    "seen_bias": opt(True, SWITCH, "validation fixed")(
        "Learn one number that is added to the scores of seen items: those in the input and, in rankings if it is "
        "negative, all of the history. Off with BPR, which cannot learn it."
    ),
    "loss_mean": opt("mask", one_of("mask", "sequence"), "authors")(
        "Average over masked items, or sequence by sequence (the paper's equation 8)."
    ),
    "train_neg_sample_args": opt(None, anything("a dictionary"), "ours shared")(
        "RecBole's sampling stays off: negatives, where a loss needs them, are drawn in the loss."
    ),
}

_TRAINING: dict[str, Option] = {
    "epochs": opt(20, or_auto(whole(0)), "validation shared")(
        "Passes over all users; the learning rate reaches 0 in the last. auto: 40, fewer if items have fewer than 14 "
        "interactions; 24 with batches of 2000."
    ),
    "train_batch_size": opt(1000, or_auto(whole(1)), "validation shared")(
        "Interactions (items) in a batch, padding included; in RecBole's sequential models each is a row. auto: 1000, "
        "2000 on dense logs."
    ),
    "batch_sequences": opt(None, or_null(whole(1)), "ours")(
        "Sequences (users) in a batch, however long; it replaces train_batch_size."
    ),
    "hidden_dropout_prob": opt(0.2, or_auto(real(0, 1)), "validation shared")(
        "Dropout of embeddings and layer outputs. auto: .5 if items have 16 interactions, less if they have more or "
        "fewer."
    ),
    "attn_dropout_prob": opt(0.0, real(0, 1), "validation shared")(
        "Dropout of attention weights; RecBole's 0.2 is no better here, and slower."
    ),
    "learner": opt("adamw", one_of("adam", "adamw", "sgd", "adagrad", "rmsprop"), "authors shared fixed")(
        "Optimizer; adam and adamw run fused."
    ),
    "learning_rate": opt(0.003, or_auto(real(0, brackets="()")), "validation shared")(
        "Highest learning rate; lower for hidden states above 64, about 0.2 / hidden_size (0.0015 for 128). auto: "
        "0.001, 0.002 with batches of 2000."
    ),
    "lr_schedule": opt("cosine", one_of("constant", "linear", "cosine"), "ours")(
        "Learning rate after the warm-up; linear and cosine fall to 0 at the last epoch."
    ),
    "warmup_steps": opt(200, whole(0), "ours")("Steps of linear warm-up, at most a tenth of the run."),
    "weight_decay": opt(0.01, real(0), "ours shared")(
        "Weight decay of weights and embeddings; LayerNorm and biases are spared."
    ),
    "clip_grad_norm": opt({"max_norm": 5.0}, or_null(_CLIPPING), "paper shared")("Gradient clipping."),
    "sparse_update": opt(False, SWITCH, "ours fixed")(
        "With sampled losses and adamw: update only the embeddings that a batch touches, for huge catalogues."
    ),
    "enable_amp": recboles(SWITCH, "")(
        "Multiply in bfloat16 while training, which needs no enable_scaler. Ranking is in float32."
    ),
    "stopping_step": opt(30, whole(0), "ours shared")(
        "Evaluations without improvement before training stops; BERT4Rec starts on a plateau."
    ),
    "eval_step": recboles(whole(0), "unsearched")("Epochs from one validation to the next; 0: no validation."),
    "seed": recboles(whole(0), "decided")("Seed of weights, masks, windows, batches and drawn candidates."),
}

_DATA: dict[str, Option] = {
    "training_rows": opt(None, or_null(one_of("user")), "RecBole all data")(
        "For RecBole's SASRec and GRU4Rec and their F variants: user trains all positions of a window in one pass; "
        "null: one padded row for each label. This package's own models have no padded rows."
    ),
    "window": opt("random", one_of("random", "last", "sliding"), "ours data")(
        "Part of a history longer than MAX_ITEM_LIST_LENGTH that is trained: a random window each epoch, the last "
        "window, or all sliding ones."
    ),
    "prop_sliding_window": opt(0.5, real(0, 1, "(]"), "authors data", ("window", ("sliding",)))(
        "Step of window: sliding, as a share of MAX_ITEM_LIST_LENGTH (0.5 is the authors' for ML-1M)."
    ),
    "dupe_factor": opt(1, whole(1), "ours data")(
        "How often an epoch shows each sequence, masked anew each time. Authors: 10, masks drawn once."
    ),
    "exact_time": opt(False, SWITCH, "RecBole data")(
        "Order by the times as they are; RecBole rounds to float32, which merges Unix times up to 64 s apart."
    ),
    "separator": of_log(anything("one character, or null"))(
        "For a log of your own: the character between its columns, \\t for a tab; null: detected. For atomic files it "
        "is field_separator."
    ),
    "date_format": of_log(anything("a form of dates, or null"))(
        "For a log: form of its dates, such as %d.%m.%Y %H:%M; null: detected."
    ),
    "timezone": of_log(anything("the name of a time zone, or null"))(
        "For a log: time zone of dates that name none, such as Europe/Berlin; null: UTC."
    ),
    "drop_duplicates": of_log(SWITCH, False)(
        "For a log: leave out rows with the user, item and time of an earlier row; else they count as repeats."
    ),
    "quote": of_log(anything("one character, none, or null"))(
        "For a log: the character around values that hold separators; none: quotes belong to the values; null: double "
        "quotes, if that loses no rows."
    ),
    "escape": of_log(anything("one character, or null"))(
        "For a log: the character before a quote that belongs to a value, such as a backslash."
    ),
    "columns": of_log(anything("names with commas, a list of them, or null"))(
        "For a text without a header: the names of its columns, in order; null: they are in its first line."
    ),
    "in_order": of_log(SWITCH, False)(
        "For a log: its rows are in the order of time, the oldest first; a column of times is not read."
    ),
    "load_col": recboles(anything("a dictionary"), "same")("Columns to load of each atomic file."),
}

_EVALUATION: dict[str, Option] = {
    "eval_args": recboles(anything("a dictionary"), "protocol decided unsearched")(
        "Split, order and candidates: full ranking, or uniN and popN for N sampled candidates."
    ),
    "candidates": opt("recbole", one_of("recbole", "paper"), "RecBole all protocol data decided unsearched")(
        "How uniN and popN draw: as RecBole, or as the paper: no item of the user, none twice, fixed by the seed."
    ),
    "valid_users": opt(None, or_null(whole(1)), "RecBole fixed data single unsearched")(
        "With LS valid_and_test: validate on this many users, drawn by the seed, and train on the others' validation "
        "items (Petrov and Macdonald, RecSys 2022); null: validate on all."
    ),
    "exclude_seen": opt(False, SWITCH, "RecBole all protocol same unsearched")(
        "Take seen items out of rankings and recommendations (as most papers do), or rank them like any other "
        "(RecBole)."
    ),
    "logit_adjustment": opt(0.0, real(0, 100, "[]"), "off protocol")(
        "Rank by score - this * log(n + 1), where n is the item's count in training (Menon et al., ICLR 2021); 1 suits "
        "candidates drawn by popularity, and recommends more rare items."
    ),
    "memory": opt(False, SWITCH, "validation")(
        "Add to the score of an item how often it followed the history's items in training; validation chooses the "
        "weight after the last epoch."
    ),
    "metrics": recboles(anything("a list"), "same unsearched")("Metrics to compute."),
    "topk": recboles(anything("a list"), "same unsearched")("Lengths of the lists that metrics read."),
    "valid_metric": recboles(anything("a text"), "protocol same unsearched")("Metric that selects the best epoch."),
    "eval_batch_size": opt(256, whole(1), "ours shared")(
        "Rows scored at once; more did not make it faster on two cores."
    ),
}

_RUN: dict[str, Option] = {
    "model": recboles(anything("a text"), "unsearched")("Name of the model."),
    "dataset": recboles(anything("a text"), "decided unsearched")(
        "Name of the data set, or the path of a log of one's own."
    ),
    "data_path": recboles(anything("a text"), "unsearched inert")("Folder of the data sets."),
    "refit": opt(None, or_null(one_of("train+valid", "all")), "ours single unsearched")(
        "After the test, train anew for the selected epochs: on train+valid, with a test, or on all, to deploy; null: "
        "do not."
    ),
    "warm_start": opt(None, anything("the path of a checkpoint, or null"), "ours fixed single unsearched")(
        "Begin with the weights of a checkpoint that was trained on an older log; items are matched by their ids. "
        "Options that shape the weights are taken from it."
    ),
    "keep_histories": opt(False, SWITCH, "ours unsearched inert")(
        "Store all users' histories in the checkpoint, to recommend to them from it alone."
    ),
    "allow_unknown": opt(False, SWITCH, "ours all unsearched inert")(
        "Accept options that neither RecBole nor the model knows; else they are refused as misspelt."
    ),
    "worker": recboles(whole(0), "")("Processes that load data."),
    "checkpoint_dir": recboles(anything("a text"), "inert")("Folder for checkpoints and records."),
    "trust_pickles": opt(False, SWITCH, "ours all unsearched inert")(
        "Read data sets and loaders that RecBole saved; such a file is a pickle, which can run any code. Only the "
        "command line and Python can set it, no file."
    ),
    "show_progress": recboles(anything("True or False"), "decided inert")("Show progress bars."),
    "state": recboles(anything("a text"), "inert")("Level of the log."),
    "gpu_id": recboles(anything("a text"), "inert")("GPUs to use."),
    "local_rank": recboles(anything("a whole number"), "inert")(
        "Number of this process among those that train together; RecBole sets it."
    ),
    "wandb_project": recboles(anything("a text"), "inert")("Project of Weights & Biases."),
}

SECTIONS: Mapping[str, Mapping[str, Option]] = {
    "Encoder": _ENCODER,
    "Objective and loss": _TASK,
    "Training": _TRAINING,
    "Data": _DATA,
    "Evaluation": _EVALUATION,
    "The run": _RUN,
}
"""The table, by the part of a run that an option decides."""
OPTIONS: Mapping[str, Option] = {name: option for rows in SECTIONS.values() for name, option in rows.items()}

_AUTO = ("n_layers", "train_batch_size", "learning_rate", "epochs", "hidden_dropout_prob")
_NEXT: Mapping[str, Any] = {"objective": "next", **dict.fromkeys(_AUTO, AUTO)}
MODEL_DEFAULTS: Mapping[str, Mapping[str, Any]] = dict(
    zip(OUR_MODELS, ({}, {**_NEXT, "objective": "prefix", "memory": True}, _NEXT), strict=True)
)
"""Options of each model whose default is not that of BERT4Rec in the table."""


def default(name: str) -> Any:
    """Return a copy of an option's default."""
    return copy.deepcopy(OPTIONS[name].default)


def names(*words: str) -> tuple[str, ...]:
    """List the options with one of the words, in the order of the table."""
    return tuple(name for name, option in OPTIONS.items() if option.words & {*words})


FOLLOWED_BY_ALL = frozenset(names("all"))
"""Options of this package that all models follow."""
OURS_ONLY = tuple(name for name in OPTIONS if name not in names("shared", "all"))
"""Options that only BERT4Rec has."""
SHAPES_DATA = names("data")
"""Options that must agree before a saved data set or loader is used again."""
FIXED_ON_RESUME = names("fixed")
SHAPES_WEIGHTS = tuple(name for name in FIXED_ON_RESUME if name in {**_ENCODER, **_TASK})
"""Options that must agree before weights are loaded."""
PROTOCOL = names("protocol")
"""Options that decide which epoch is best."""
SAME_IN_COMPARISON = names("same")
DECIDED_BY_COMPARISON = names("same", "decided")
SINGLE_RUN = names("single")
NOT_SEARCHED = names("unsearched")
WITHOUT_EFFECT = names("inert")
"""Options that do not change a result."""
