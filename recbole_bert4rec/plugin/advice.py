"""Warn before training that a configuration would be slow, or learn little."""

from __future__ import annotations

from recbole.config import Config

from recbole_bert4rec.options.table import OPTIONS
from recbole_bert4rec.plugin.user_rows import CAUSAL_MODELS
from recbole_bert4rec.system.constants import MODEL_NAME

_RATE_BY_SIZE = OPTIONS["learning_rate"].default * OPTIONS["hidden_size"].default
_FEW_STEPS = 10
"""Steps of an epoch below which the user is warned."""
_STEEPEST = 0.3
"""With a larger ``learning_rate`` times ``hidden_size``, BERT4Rec learnt less, or no more (results/objectives.md)."""


def advice(config: Config) -> list[str]:
    """Return warnings about the configuration; the caller prefixes the model's name."""
    return [warning for warning in (_why_slow(config), _why_steep(config)) if warning is not None]


def advice_on_steps(config: Config, steps: int, epochs: int) -> list[str]:
    """Return warnings about a training with too few steps to learn."""
    if epochs <= 0:
        return []
    warnings = []
    smaller = "a smaller batch_sequences" if config["batch_sequences"] else "a smaller train_batch_size"
    if steps < _FEW_STEPS:
        warnings.append(
            f"an epoch has few steps ({steps}); {smaller} makes more of them (now "
            f"{config['batch_sequences'] or config['train_batch_size']}), or give more epochs and a larger "
            "stopping_step, which counts epochs"
        )
    warmup = config["warmup_steps"]
    if steps * epochs < warmup:
        warnings.append(
            f"all epochs together have fewer steps ({steps * epochs}) than warmup_steps ({warmup}), so the learning "
            f"rate rises in the first tenth of them; more epochs, or {smaller}, give more"
        )
    return warnings


def _why_slow(config: Config) -> str | None:
    """Warn that a model is trained on padded rows though whole windows are possible; None for others."""
    if config["model"] not in CAUSAL_MODELS or config["loss_type"] != "CE" or config["training_rows"] is not None:
        return None
    return "trains a padded row for each prefix of a history; --training_rows=user trains whole histories, much faster"


def _why_steep(config: Config) -> str | None:
    """Warn that a learning rate is too high for the size of the hidden states; None for others."""
    if config["model"] != MODEL_NAME:
        return None
    rate, size = float(config["learning_rate"]), int(config["hidden_size"])
    if rate * size <= _STEEPEST:
        return None
    better = f"{_RATE_BY_SIZE / size:.2g}"
    return f"may learn less: learning_rate {rate:g} is high for hidden_size {size}; try --learning_rate={better}"
