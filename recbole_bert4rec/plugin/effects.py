"""Find options that have no effect on a model, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from recbole.config import Config

from recbole_bert4rec.options.checks import is_known, known_to_every_model
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.options.table import FOLLOWED_BY_ALL, OPTIONS, OURS_ONLY
from recbole_bert4rec.options.user_models import is_ours, options_read_by
from recbole_bert4rec.plugin.layered_config import LayeredConfig
from recbole_bert4rec.plugin.model import BERT4Rec
from recbole_bert4rec.plugin.user_rows import CAUSAL_MODELS, WindowModel
from recbole_bert4rec.system.constants import OUR_MODELS

_OF_THE_TRANSFORM = ("mask_ratio", "ft_ratio")
"""Options that RecBole reads for any model, but only if ``transform`` masks the sequences."""


def known_to(config: Config) -> set[str]:
    """Collect the options that the model of a configuration reads."""
    return {*config.internal_config_dict, *options_read_by(config.model_class)}.union(*config.parameters.values())


def without_effect(config: Config, names: Iterable[str] | None = None) -> dict[str, str]:
    """Return why options have no effect on the model, by their names."""
    if names is None:
        stored = config.option_layers.stored if isinstance(config, LayeredConfig) else {}
        written, usual = config.external_config_dict, {**config.internal_config_dict, **stored}
        names = [name for name in written if name not in usual or written[name] != usual[name]]
    known = known_to(config)
    reasons = {name: why_no_effect(name, config.model_class, config.final_config_dict, known) for name in sorted(names)}
    return {name: why for name, why in reasons.items() if why is not None}


def why_no_effect(name: str, model_class: type, config: Mapping[str, Any], known: AbstractSet[str]) -> str | None:
    """Return why an option has no effect on a model; None if it has one."""
    model = model_class.__name__
    if is_ours(model_class):
        if (unmet := _unmet_need(name, model_class, config)) is not None:
            return unmet
        if name == "train_neg_sample_args":
            return "has no effect: the losses draw their own negatives"
        if name == "train_batch_size" and config["batch_sequences"] is not None:
            return f"has no effect beside batch_sequences, which is {config['batch_sequences']}"
    elif name in OURS_ONLY:
        return f"is for {', '.join(OUR_MODELS)} and has no effect on {model}"
    elif name in _OF_THE_TRANSFORM and not config.get("transform"):
        return f"is another model's and has no effect on {model}"
    if name == "training_rows" and model not in CAUSAL_MODELS and not issubclass(model_class, WindowModel):
        return f"is for {', '.join(CAUSAL_MODELS)} and has no effect on {model}"
    if is_known(name) and name not in known and name not in FOLLOWED_BY_ALL | known_to_every_model():
        return f"is another model's and has no effect on {model}"
    return None


def _unmet_need(name: str, model_class: Any, config: Mapping[str, Any]) -> str | None:
    """Say which value of another option an option of our models needs; None if it has it, or the data decide."""
    needs = OPTIONS[name].needs if name in OPTIONS else None
    if needs is None:
        return None
    other, values = needs
    own_loss = other == "loss_type" and model_class.loss_of is not BERT4Rec.loss_of
    if own_loss or config[other] in (AUTO, *values):
        return None
    return f"is for {other} {' or '.join(values)} and has no effect with {config[other]}"
