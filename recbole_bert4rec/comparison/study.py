"""Studies: variants of one model, as in the figures and the ablation table of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recbole_bert4rec.options.table import DECIDED_BY_COMPARISON, SINGLE_RUN
from recbole_bert4rec.options.user_models import known_as, named_in_file
from recbole_bert4rec.system.constants import MODEL_NAME
from recbole_bert4rec.system.errors import UserError, short
from recbole_bert4rec.system.yaml_files import read_yaml


@dataclass(frozen=True)
class Study:
    """The variants of a model.

    Attributes:
        variants: options of each variant, by name; none: models are compared.
        axis: the option, a number, that tells the variants apart, for a picture of the metrics along it; or None.
        base: the model that is varied; a variant may name another ``model``.
    """

    variants: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    axis: str | None = None
    base: str = MODEL_NAME


def read_study(path: str, base: str = MODEL_NAME) -> Study:
    """Read a study: ``variants`` (options by name) and, if one number is varied, ``axis`` (its option)."""
    content = read_yaml(path)
    strange = sorted(map(str, set(content) - {"variants", "axis"}))
    if strange:
        raise UserError(f"study {path} has {strange}, but a study has `variants` and perhaps `axis`")
    variants, axis = content.get("variants"), content.get("axis")
    if (
        not isinstance(variants, dict)
        or not variants
        or not all(isinstance(options, dict) for options in variants.values())
    ):
        raise UserError(
            f"study {path}: `variants` must be lines of `name: {{option: value}}`, but is {short(variants)}"
        )
    if not (axis is None or isinstance(axis, str)):
        raise UserError(f"study {path}: `axis` must be the name of an option, but is {short(axis)}")
    mistakes = [
        mistake for name, options in variants.items() for mistake in _mistakes(f"variant {name!r}", options, axis)
    ]
    if mistakes:
        raise UserError(f"study {path}: {'; '.join(mistakes)}")
    known_as(base)
    for options in variants.values():
        named_in_file(str(options.get("model", "")), f"study {path}")
    return Study({" ".join(str(name).split()): options for name, options in variants.items()}, axis, base=base)


def _mistakes(variant: str, options: Mapping[Any, object], axis: str | None) -> list[str]:
    """Return the mistakes in a variant's options; its configuration later refuses unknown ones."""
    mistakes = [f"{variant} sets {key!r}, which is no name of an option" for key in options if not isinstance(key, str)]
    single = [key for key in options if key in SINGLE_RUN]
    if single:
        mistakes.append(f"{variant} sets {single}, which are for a single run")
    decided = [key for key in options if key in DECIDED_BY_COMPARISON]
    if decided:
        mistakes.append(
            f"{variant} sets {decided}, but all variants are evaluated alike; give such options for all, on the "
            "command line or in --config_files"
        )
    if axis is not None and axis not in options:
        mistakes.append(f"`axis` is {axis}, which {variant} does not set")
    elif axis is not None and (isinstance(options[axis], bool) or not isinstance(options[axis], (int, float))):
        mistakes.append(f"`axis` is {axis}, but {variant} gives it no number: {short(options[axis])}")
    return mistakes
