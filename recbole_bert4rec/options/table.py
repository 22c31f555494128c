"""The table of options: the only place for each one's default, allowed values, role and meaning.

To add an option, add an entry here and the code that uses it; then run ``make pages``. From the entry follow the check
of its value, ``properties/model/BERT4Rec.yaml``, ``docs/options.md``, the options that a resumed run must
share, those that make RecBole read the data again, the warning on other models, and the options that comparisons and
searches leave out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from recbole_bert4rec.options.kinds import (
    AUTO,
    Anything,
    Clipping,
    Kind,
    OneOf,
    Real,
    SomeOf,
    Switch,
    Whole,
    or_auto,
    or_null,
)
from recbole_bert4rec.system.constants import ABLATABLE, LOSSES, SAMPLED_LOSSES


class Role(Enum):
    """The part of a run that an option decides; the value heads its section of the pages."""

    ARCHITECTURE = "Encoder"
    TASK = "Objective and loss"
    OPTIMISATION = "Training"
    DATA = "Data"
    EVALUATION = "Evaluation"
    RUN = "The run"


class Source(Enum):
    """Origin of a default."""

    PAPER = "paper"
    PAPER_OFF = "off, as in the paper"
    AUTHORS = "authors"
    RECBOLE = "RecBole"
    VALIDATION = "validation"
    OURS = "ours"


class OnResume(Enum):
    """Treatment of an option when a checkpoint is trained further."""

    FIXED = "must be the checkpoint's: it shapes the weights or the optimizer's state"
    PROTOCOL = "must be the checkpoint's while epochs are left: it decides which epoch is best"
    FREE = "may change"


class InComparison(Enum):
    """How a comparison or study treats an option."""

    EACH = "each model or variant may have its own"
    SAME = "all models get BERT4Rec's"
    DECIDED = "the comparison decides"
    REFUSED = "is for a single run"


class _RecBoles:
    """The default is RecBole's own; our property file leaves it out."""

    def __repr__(self) -> str:
        return "RecBole's"


RECBOLES = _RecBoles()
_BY_ROLE = {Role.ARCHITECTURE: OnResume.FIXED, Role.EVALUATION: OnResume.PROTOCOL}


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option.

    Attributes:
        default: value if the user sets none; :data:`RECBOLES` leaves it to RecBole.
        kind: the values that it takes.
        role: the part of a run that it decides.
        source: origin of the default.
        help: what it means, in a line.
        shared: whether models other than BERT4Rec know it; others get a warning that it has no effect.
        on_resume: whether a checkpoint may be trained further with another value. Default by role: FIXED for the
            architecture, PROTOCOL for the evaluation, FREE for the rest.
        shapes_data: whether a saved data set or loader must have been made with the same value. Default: role DATA.
        in_comparison: how comparisons and studies treat it.
        searched: whether a search may vary it. Default: not if it decides the protocol.
        affects_result: whether a run with another value gives other results.
        needs: another option, and its values with which this one means something; None: it always does.
    """

    default: Any
    kind: Kind
    role: Role
    source: Source
    help: str
    shared: bool = False
    on_resume: OnResume | None = None
    shapes_data: bool | None = None
    in_comparison: InComparison = InComparison.EACH
    searched: bool | None = None
    affects_result: bool = True
    needs: tuple[str, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        """Fill in the defaults that follow from the role."""
        resume = self.on_resume or _BY_ROLE.get(self.role, OnResume.FREE)
        object.__setattr__(self, "on_resume", resume)
        if self.shapes_data is None:
            object.__setattr__(self, "shapes_data", self.role is Role.DATA)
        if self.searched is None:
            object.__setattr__(self, "searched", resume is not OnResume.PROTOCOL)


def _recboles(**about: Any) -> Option:
    """Describe an option of RecBole's, which every model has, with RecBole's default."""
    return Option(default=RECBOLES, source=Source.RECBOLE, shared=True, **about)


def _of_logs(default: Any = None, **about: Any) -> Option:
    """Describe an option of how a log is read, for every model."""
    return Option(
        default=default,
        role=Role.DATA,
        source=Source.OURS,
        shared=True,
        shapes_data=False,
        searched=False,
        affects_result=False,
        **about,
    )


OPTIONS: Mapping[str, Option] = {
    # ---- Encoder
    "hidden_size": Option(
        default=64,
        kind=Whole(1),
        role=Role.ARCHITECTURE,
        source=Source.PAPER,
        shared=True,
        help="H, the size of embeddings and hidden states; divisible by n_heads.",
    ),
    "inner_size": Option(
        default=256,
        kind=Whole(1),
        role=Role.ARCHITECTURE,
        source=Source.PAPER,
        shared=True,
        help="Size of the feed-forward layer, 4 H in the paper.",
    ),
    "n_layers": Option(
        default=2,
        kind=Whole(1),
        role=Role.ARCHITECTURE,
        source=Source.PAPER,
        shared=True,
        help="Number of Transformer layers.",
    ),
    "n_heads": Option(
        default=2,
        kind=Whole(1),
        role=Role.ARCHITECTURE,
        source=Source.PAPER,
        shared=True,
        help="Number of attention heads.",
    ),
    "MAX_ITEM_LIST_LENGTH": Option(
        default=200,
        kind=Whole(2),
        role=Role.ARCHITECTURE,
        source=Source.VALIDATION,
        shared=True,
        help="Longest input; of a longer history the model sees the latest items, or a window in training.",
    ),
    "hidden_act": Option(
        default="gelu",
        kind=OneOf(("gelu", "relu", "swish", "tanh", "sigmoid")),
        role=Role.ARCHITECTURE,
        source=Source.PAPER,
        shared=True,
        help="Activation of the feed-forward layer.",
    ),
    "layer_norm_eps": Option(
        default=1e-12,
        kind=Real(0, brackets="()"),
        role=Role.ARCHITECTURE,
        source=Source.AUTHORS,
        shared=True,
        help="Number added to the variance in LayerNorm.",
    ),
    "norm": Option(
        default="post",
        kind=OneOf(("post", "pre")),
        role=Role.ARCHITECTURE,
        source=Source.PAPER,
        help="LayerNorm after each sublayer (post), or before each and once at the end (pre).",
    ),
    "position": Option(
        default="relative",
        kind=OneOf(("start", "end", "none", "relative")),
        role=Role.ARCHITECTURE,
        source=Source.VALIDATION,
        help="Count positions from the start of the window (paper), from its end (some seeds stay on the first "
        "plateau), or not at all (the paper's Table 5); relative: a bias of attention for each distance (T5).",
    ),
    "ablate": Option(
        default=[],
        kind=SomeOf(ABLATABLE),
        role=Role.ARCHITECTURE,
        source=Source.PAPER,
        help="Parts of the layers to leave out: residual, layer_norm, feed_forward (the paper's Table 5).",
    ),
    "output_projection": Option(
        default=False,
        kind=Switch(),
        role=Role.ARCHITECTURE,
        source=Source.VALIDATION,
        help="Project hidden states before they are multiplied with the items' embeddings (equation 7), or not.",
    ),
    "selected_features": Option(
        default=[],
        kind=SomeOf(plural="columns of the .item file, such as ['class']"),
        role=Role.ARCHITECTURE,
        source=Source.PAPER_OFF,
        shared=True,
        help="Columns of the .item file: embeddings of categories are added to the item's at the input; numbers are "
        "read like item_vectors.",
    ),
    "item_vectors": Option(
        default=[],
        kind=SomeOf(plural="files, such as ['titles.parquet']", alone=True),
        role=Role.ARCHITECTURE,
        source=Source.PAPER_OFF,
        on_resume=OnResume.FREE,
        help="Files with a vector of each item, .parquet or .npy: what items are, read at the input and the output, "
        "most of all for rare items; those without an interaction can be recommended.",
    ),
    "initializer_range": Option(
        default=0.02,
        kind=Real(0, brackets="()"),
        role=Role.ARCHITECTURE,
        source=Source.PAPER,
        shared=True,
        on_resume=OnResume.FREE,
        help="Standard deviation of the truncated normal initialisation.",
    ),
    "value_init": Option(
        default="identity",
        kind=OneOf(("identity", "random")),
        role=Role.ARCHITECTURE,
        source=Source.VALIDATION,
        on_resume=OnResume.FREE,
        help="Start attention as an average of its inputs (identity), which ends the plateau at the start of training; "
        "random: as all other weights (paper).",
    ),
    "bias_init": Option(
        default="frequency",
        kind=OneOf(("frequency", "zero")),
        role=Role.ARCHITECTURE,
        source=Source.VALIDATION,
        on_resume=OnResume.FREE,
        help="Start the output bias at the logarithm of the items' frequencies, or at zero (paper).",
    ),
    # ---- Objective and loss
    "objective": Option(
        default="cloze",
        kind=OneOf(("cloze", "next", "prefix")),
        role=Role.TASK,
        source=Source.PAPER,
        on_resume=OnResume.FIXED,
        shapes_data=True,
        help="cloze: masked items from both sides (paper); next: every position, which sees what is before it, "
        "predicts the item after it (SASRec); prefix: the same after a random beginning that is seen from both sides.",
    ),
    "prefix_share": Option(
        default=0.5,
        kind=Real(0, 1, "[]"),
        role=Role.TASK,
        needs=("objective", ("prefix",)),
        source=Source.VALIDATION,
        help="Probability that a sequence has a two-sided beginning, with objective prefix; the others are causal.",
    ),
    "mask_ratio": Option(
        default=0.2,
        kind=Real(0, 1, "(]"),
        role=Role.TASK,
        needs=("objective", ("cloze",)),
        source=Source.PAPER,
        shared=True,
        help="rho, the share of items to mask (0.2 is the paper's for ML-1M).",
    ),
    "ft_ratio": Option(
        default=0.1,
        kind=Real(0, 1, "[]"),
        role=Role.TASK,
        needs=("objective", ("cloze",)),
        source=Source.VALIDATION,
        shared=True,
        help="Probability that a sequence masks its last item only, as in a test.",
    ),
    "mask_count": Option(
        default="bernoulli",
        kind=OneOf(("bernoulli", "exact")),
        role=Role.TASK,
        needs=("objective", ("cloze",)),
        source=Source.RECBOLE,
        help="bernoulli: mask each item with probability rho; exact: mask max(1, round(rho n)) items of n.",
    ),
    "mask_random_share": Option(
        default=0.0,
        kind=Real(0, 1, "[]"),
        role=Role.TASK,
        needs=("objective", ("cloze",)),
        source=Source.AUTHORS,
        help="Share of masked items that show a random item instead of [MASK].",
    ),
    "mask_keep_share": Option(
        default=0.0,
        kind=Real(0, 1, "[]"),
        role=Role.TASK,
        needs=("objective", ("cloze",)),
        source=Source.AUTHORS,
        help="Share of masked items that show themselves.",
    ),
    "transform": Option(
        default=None,
        kind=or_null(OneOf(("mask_itemseq",))),
        role=Role.TASK,
        source=Source.OURS,
        shared=True,
        help="RecBole's mask_itemseq means the same as null: masks are drawn in the loss.",
    ),
    "loss_type": Option(
        default=AUTO,
        kind=or_auto(OneOf(LOSSES)),
        role=Role.TASK,
        source=Source.VALIDATION,
        shared=True,
        help="CE: softmax over all items; sampled_softmax, BCE, gBCE: for huge catalogues; BPR: one negative a masked "
        "item, outside its sequence.",
    ),
    "n_negatives": Option(
        default=1024,
        kind=Whole(1),
        role=Role.TASK,
        needs=("loss_type", SAMPLED_LOSSES),
        source=Source.VALIDATION,
        help="Negatives a batch of sampled_softmax, BCE and gBCE, shared by its masked items.",
    ),
    "negatives": Option(
        default=AUTO,
        kind=or_auto(OneOf(("uniform", "popularity"))),
        role=Role.TASK,
        needs=("loss_type", SAMPLED_LOSSES),
        source=Source.OURS,
        help="How negatives are drawn; by popularity with sampled_softmax alone.",
    ),
    "gbce_t": Option(
        default=0.75,
        kind=Real(0, 1, "[]"),
        role=Role.TASK,
        needs=("loss_type", ("gBCE",)),
        source=Source.OURS,
        help="Calibration t of gBCE (Petrov and Macdonald, RecSys 2023): 0 is BCE, 1 predicts probabilities.",
    ),
    "seen_bias": Option(
        default=True,
        kind=Switch(),
        role=Role.TASK,
        source=Source.VALIDATION,
        on_resume=OnResume.FIXED,
        help="Learn one number that is added to the scores of items that the user had: those in the input, and in "
        "rankings, where it is negative, all of the history. Off with BPR, which cannot learn it.",
    ),
    "loss_mean": Option(
        default="mask",
        kind=OneOf(("mask", "sequence")),
        role=Role.TASK,
        source=Source.AUTHORS,
        help="Average over masked items, or sequence by sequence (the paper's equation 8).",
    ),
    "train_neg_sample_args": Option(
        default=None,
        kind=Anything("a dictionary"),
        role=Role.TASK,
        source=Source.OURS,
        shared=True,
        help="RecBole's sampling stays off: negatives, where a loss needs them, are drawn in the loss.",
    ),
    # ---- Training
    "epochs": Option(
        default=20,
        kind=or_auto(Whole(0)),
        role=Role.OPTIMISATION,
        source=Source.VALIDATION,
        shared=True,
        help="Passes over all users; the learning rate reaches 0 at the last. auto: 40, fewer where items have fewer "
        "than 14 interactions; 24 in batches of 2000.",
    ),
    "train_batch_size": Option(
        default=1000,
        kind=or_auto(Whole(1)),
        role=Role.OPTIMISATION,
        source=Source.VALIDATION,
        shared=True,
        help="Interactions (items) in a batch, padding counted, as a row of RecBole's sequential models is one. auto: "
        "1000, 2000 where items have 100 interactions.",
    ),
    "batch_sequences": Option(
        default=None,
        kind=or_null(Whole(1)),
        role=Role.OPTIMISATION,
        source=Source.OURS,
        help="Sequences (users) in a batch, however long; it takes the place of train_batch_size.",
    ),
    "hidden_dropout_prob": Option(
        default=0.2,
        kind=or_auto(Real(0, 1)),
        role=Role.OPTIMISATION,
        source=Source.VALIDATION,
        shared=True,
        help="Dropout of embeddings and layer outputs. auto: .5 where items have 16 interactions, less where they have "
        "more or fewer.",
    ),
    "attn_dropout_prob": Option(
        default=0.0,
        kind=Real(0, 1),
        role=Role.OPTIMISATION,
        source=Source.VALIDATION,
        shared=True,
        help="Dropout of attention weights; RecBole's 0.2 is no better here, and slower.",
    ),
    "learner": Option(
        default="adamw",
        kind=OneOf(("adam", "adamw", "sgd", "adagrad", "rmsprop")),
        role=Role.OPTIMISATION,
        source=Source.AUTHORS,
        shared=True,
        on_resume=OnResume.FIXED,
        help="Optimizer; adam and adamw run fused.",
    ),
    "learning_rate": Option(
        default=0.003,
        kind=or_auto(Real(0, brackets="()")),
        role=Role.OPTIMISATION,
        source=Source.VALIDATION,
        shared=True,
        help="Highest learning rate; lower for hidden states above 64, about 0.2 / hidden_size (0.0015 for 128). auto: "
        "0.001, 0.002 in batches of 2000.",
    ),
    "lr_schedule": Option(
        default="cosine",
        kind=OneOf(("constant", "linear", "cosine")),
        role=Role.OPTIMISATION,
        source=Source.OURS,
        help="Learning rate after the warm-up; linear and cosine fall to 0 at the last epoch.",
    ),
    "warmup_steps": Option(
        default=200,
        kind=Whole(0),
        role=Role.OPTIMISATION,
        source=Source.OURS,
        help="Steps of linear warm-up, at most a tenth of the run.",
    ),
    "weight_decay": Option(
        default=0.01,
        kind=Real(0),
        role=Role.OPTIMISATION,
        source=Source.OURS,
        shared=True,
        help="Weight decay of weights and embeddings; LayerNorm and biases are spared.",
    ),
    "clip_grad_norm": Option(
        default={"max_norm": 5.0},
        kind=or_null(Clipping()),
        role=Role.OPTIMISATION,
        source=Source.PAPER,
        shared=True,
        help="Gradient clipping.",
    ),
    "sparse_update": Option(
        default=False,
        kind=Switch(),
        role=Role.OPTIMISATION,
        source=Source.OURS,
        on_resume=OnResume.FIXED,
        help="With sampled losses and adamw: update only the embeddings that a batch touches, for huge catalogues.",
    ),
    "enable_amp": _recboles(
        kind=Switch(),
        role=Role.OPTIMISATION,
        help="Multiply in bfloat16 while training, which needs no enable_scaler. Ranking is in float32.",
    ),
    "stopping_step": Option(
        default=30,
        kind=Whole(0),
        role=Role.OPTIMISATION,
        source=Source.OURS,
        shared=True,
        help="Evaluations without improvement before training stops; BERT4Rec starts on a plateau.",
    ),
    "eval_step": _recboles(
        kind=Whole(0),
        role=Role.OPTIMISATION,
        searched=False,
        help="Epochs from one validation to the next; 0: no validation.",
    ),
    "seed": _recboles(
        kind=Whole(0),
        role=Role.OPTIMISATION,
        in_comparison=InComparison.DECIDED,
        help="Seed of weights, masks, windows, batches and drawn candidates.",
    ),
    # ---- Data
    "training_rows": Option(
        default=None,
        kind=or_null(OneOf(("user",))),
        role=Role.DATA,
        source=Source.RECBOLE,
        shared=True,
        help="For RecBole's SASRec and GRU4Rec and their F variants: user trains in one pass over a window, with the "
        "loss at all its positions; null: on one padded row a label. This package's own models have no padded rows.",
    ),
    "window": Option(
        default="random",
        kind=OneOf(("random", "last", "sliding")),
        role=Role.DATA,
        source=Source.OURS,
        help="What is trained of a history longer than MAX_ITEM_LIST_LENGTH: a random window each epoch, the last, or "
        "all sliding ones.",
    ),
    "prop_sliding_window": Option(
        default=0.5,
        kind=Real(0, 1, "(]"),
        role=Role.DATA,
        needs=("window", ("sliding",)),
        source=Source.AUTHORS,
        help="Step of window: sliding, as a share of MAX_ITEM_LIST_LENGTH (0.5 is the authors' for ML-1M).",
    ),
    "dupe_factor": Option(
        default=1,
        kind=Whole(1),
        role=Role.DATA,
        source=Source.OURS,
        help="How often an epoch shows each sequence, masked anew each time. Authors: 10, masks drawn once.",
    ),
    "exact_time": Option(
        default=False,
        kind=Switch(),
        role=Role.DATA,
        source=Source.RECBOLE,
        help="Order by the times as they are; RecBole rounds to float32, which merges Unix times up to 64 s apart.",
    ),
    "separator": _of_logs(
        kind=Anything("one character, or null"),
        help="For a log of one's own: the sign between its columns, \\t for a tab; null: found. In atomic files it is "
        "field_separator.",
    ),
    "date_format": _of_logs(
        kind=Anything("a form of dates, or null"),
        help="For a log: form of its dates, such as %d.%m.%Y %H:%M; null: found.",
    ),
    "timezone": _of_logs(
        kind=Anything("the name of a time zone, or null"),
        help="For a log: time zone of dates that name none, such as Europe/Berlin; null: UTC.",
    ),
    "drop_duplicates": _of_logs(
        default=False,
        kind=Switch(),
        help="For a log: leave out rows whose user, item and time an earlier row has; else they count as repeats.",
    ),
    "quote": _of_logs(
        kind=Anything("one character, none, or null"),
        help="For a log: the sign around values that hold separators; none: signs around values belong to them; null: "
        "double quotes, where that loses no rows.",
    ),
    "escape": _of_logs(
        kind=Anything("one character, or null"),
        help="For a log: the sign before a quote or a separator that belongs to a value, such as a backslash.",
    ),
    "columns": _of_logs(
        kind=Anything("names with commas, a list of them, or null"),
        help="For a text without a header: the names of its columns, in their order; null: its first line has them.",
    ),
    "in_order": _of_logs(
        default=False,
        kind=Switch(),
        help="For a log: its rows are in the order of time, the first one first; a column of times is not read.",
    ),
    "load_col": _recboles(
        kind=Anything("a dictionary"),
        role=Role.DATA,
        shapes_data=False,  # it stands in RecBole's own list
        in_comparison=InComparison.SAME,
        help="Columns to load of each atomic file.",
    ),
    # ---- Evaluation
    "eval_args": _recboles(
        kind=Anything("a dictionary"),
        role=Role.EVALUATION,
        in_comparison=InComparison.DECIDED,
        help="Split, order and candidates: full ranking, or uniN and popN for N sampled candidates.",
    ),
    "candidates": Option(
        default="recbole",
        kind=OneOf(("recbole", "paper")),
        role=Role.EVALUATION,
        source=Source.RECBOLE,
        shared=True,
        shapes_data=True,
        in_comparison=InComparison.DECIDED,
        help="How uniN and popN draw: as RecBole, or as the paper: no item of the user, none twice, fixed by the seed.",
    ),
    "valid_users": Option(
        default=None,
        kind=or_null(Whole(1)),
        role=Role.EVALUATION,
        source=Source.RECBOLE,
        on_resume=OnResume.FIXED,
        shapes_data=True,
        in_comparison=InComparison.REFUSED,
        searched=False,
        help="With LS valid_and_test: validate on so many users, drawn by the seed, and train with the others' "
        "validation items (Petrov and Macdonald, RecSys 2022); null: validate on all.",
    ),
    "exclude_seen": Option(
        default=False,
        kind=Switch(),
        role=Role.EVALUATION,
        source=Source.RECBOLE,
        shared=True,
        in_comparison=InComparison.SAME,
        help="Take items of the user's history out of rankings and recommendations (as most papers do), or rank them "
        "like any other (RecBole).",
    ),
    "logit_adjustment": Option(
        default=0.0,
        kind=Real(0, 100, "[]"),
        role=Role.EVALUATION,
        source=Source.PAPER_OFF,
        searched=True,
        help="Rank by score - this * log(n + 1), n the item's count in training (Menon et al., ICLR 2021); 1 suits "
        "candidates drawn by popularity, and shows more of the tail.",
    ),
    "memory": Option(
        default=False,
        kind=Switch(),
        role=Role.EVALUATION,
        source=Source.VALIDATION,
        on_resume=OnResume.FREE,
        help="Add to the score of an item how often it followed the history's items in training; by how much, "
        "validation decides after the last epoch.",
    ),
    "metrics": _recboles(
        kind=Anything("a list"),
        role=Role.EVALUATION,
        on_resume=OnResume.FREE,
        in_comparison=InComparison.SAME,
        searched=False,
        help="Metrics to compute.",
    ),
    "topk": _recboles(
        kind=Anything("a list"),
        role=Role.EVALUATION,
        on_resume=OnResume.FREE,
        in_comparison=InComparison.SAME,
        searched=False,
        help="Lengths of the list that metrics look at.",
    ),
    "valid_metric": _recboles(
        kind=Anything("a text"),
        role=Role.EVALUATION,
        in_comparison=InComparison.SAME,
        help="Metric that selects the best epoch.",
    ),
    "eval_batch_size": Option(
        default=256,
        kind=Whole(1),
        role=Role.EVALUATION,
        source=Source.OURS,
        shared=True,
        on_resume=OnResume.FREE,
        help="Rows scored at once; more did not make it faster on two cores.",
    ),
    # ---- The run
    "model": _recboles(
        kind=Anything("a text"),
        role=Role.RUN,
        searched=False,
        help="Name of the model.",
    ),
    "dataset": _recboles(
        kind=Anything("a text"),
        role=Role.RUN,
        shapes_data=False,  # RecBole looks at it by itself
        in_comparison=InComparison.DECIDED,
        searched=False,
        help="Name of the data set, or the path of a log of one's own.",
    ),
    "data_path": _recboles(
        kind=Anything("a text"),
        role=Role.RUN,
        searched=False,
        affects_result=False,
        help="Folder of the data sets.",
    ),
    "refit": Option(
        default=None,
        kind=or_null(OneOf(("train+valid",))),
        role=Role.RUN,
        source=Source.OURS,
        in_comparison=InComparison.REFUSED,
        searched=False,
        help="After the test, train anew on train+valid for the selected epochs and test that beside; null: do not.",
    ),
    "warm_start": Option(
        default=None,
        kind=Anything("the path of a checkpoint, or null"),
        role=Role.RUN,
        source=Source.OURS,
        on_resume=OnResume.FIXED,
        in_comparison=InComparison.REFUSED,
        searched=False,
        help="Begin with the weights of a checkpoint that was trained on an older log; items are matched by their ids. "
        "Options that shape the weights follow from it.",
    ),
    "keep_histories": Option(
        default=False,
        kind=Switch(),
        role=Role.RUN,
        source=Source.OURS,
        searched=False,
        affects_result=False,
        help="Put all users' histories into the checkpoint, to recommend to them from it alone.",
    ),
    "allow_unknown": Option(
        default=False,
        kind=Switch(),
        role=Role.RUN,
        source=Source.OURS,
        shared=True,
        searched=False,
        affects_result=False,
        help="Accept options that neither RecBole nor the model knows; without it they are taken for misspelt.",
    ),
    "worker": _recboles(
        kind=Whole(0),
        role=Role.RUN,
        help="Processes that load data.",
    ),
    "checkpoint_dir": _recboles(
        kind=Anything("a text"),
        role=Role.RUN,
        affects_result=False,
        help="Folder for checkpoints and records.",
    ),
    "trust_pickles": Option(
        default=False,
        kind=Switch(),
        role=Role.RUN,
        source=Source.OURS,
        shared=True,
        searched=False,
        affects_result=False,
        help="Read data sets and loaders that RecBole saved; such a file is a pickle, which can run any code. Only the "
        "command line and Python say so, no file.",
    ),
    "show_progress": _recboles(
        kind=Anything("True or False"),
        role=Role.RUN,
        in_comparison=InComparison.DECIDED,
        affects_result=False,
        help="Show progress bars.",
    ),
    "state": _recboles(
        kind=Anything("a text"),
        role=Role.RUN,
        affects_result=False,
        help="Level of the log.",
    ),
    "gpu_id": _recboles(
        kind=Anything("a text"),
        role=Role.RUN,
        affects_result=False,
        help="GPUs to use.",
    ),
    "local_rank": _recboles(
        kind=Anything("a whole number"),
        role=Role.RUN,
        affects_result=False,
        help="Number of this process among those that train together; RecBole sets it.",
    ),
    "wandb_project": _recboles(
        kind=Anything("a text"),
        role=Role.RUN,
        affects_result=False,
        help="Project of Weights & Biases.",
    ),
}


def default(name: str) -> Any:
    """Return a copy of an option's default."""
    return copy.deepcopy(OPTIONS[name].default)


def names(chosen: Callable[[Option], bool]) -> tuple[str, ...]:
    """List the options that ``chosen`` is true of, in the order of the table."""
    return tuple(name for name, option in OPTIONS.items() if chosen(option))


OURS_ONLY = names(lambda option: not option.shared)
"""Options that only BERT4Rec has."""
SHAPES_DATA = names(lambda option: bool(option.shapes_data))
"""Options that must agree before a saved data set or loader is used again."""
FIXED_ON_RESUME = names(lambda option: option.on_resume is OnResume.FIXED)
SHAPES_WEIGHTS = names(
    lambda option: option.on_resume is OnResume.FIXED and option.role in (Role.ARCHITECTURE, Role.TASK)
)
"""Options that must agree before weights are taken over."""
PROTOCOL = names(lambda option: option.on_resume is OnResume.PROTOCOL)
"""Options that decide which epoch is best."""
SAME_IN_COMPARISON = names(lambda option: option.in_comparison is InComparison.SAME)
DECIDED_BY_COMPARISON = names(lambda option: option.in_comparison in (InComparison.SAME, InComparison.DECIDED))
SINGLE_RUN = names(lambda option: option.in_comparison is InComparison.REFUSED)
NOT_SEARCHED = names(lambda option: not option.searched)
WITHOUT_EFFECT = names(lambda option: not option.affects_result)
"""Options that do not change a result."""
