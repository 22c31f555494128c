"""Warn before training that there are too few steps to learn."""

from __future__ import annotations

from recbole.config import Config

_FEW_STEPS = 10
"""Steps of an epoch below which the user is warned."""


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
