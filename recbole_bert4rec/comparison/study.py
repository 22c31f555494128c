"""A study: one thing is varied, as in the figures and the ablation table of the paper; each variant is a contestant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from recbole_bert4rec.errors import UserError
from recbole_bert4rec.options.table import DECIDED_BY_COMPARISON, SINGLE_RUN
from recbole_bert4rec.resources import read_yaml


@dataclass(frozen=True)
class Study:
    """What is varied.

    Attributes:
        variants: options of each variant, by name; none: models are compared.
        axis: the option, a number, that tells the variants apart, for a picture of the metrics along it; or None.
        files: the variants' options as configuration files, once they are written.
    """

    variants: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    axis: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def written(self, folder: str) -> Study:
        """The same with files in ``folder``: RecBole evaluates texts of flags and dictionaries, none of a file."""
        files = {}
        for number, (name, options) in enumerate(self.variants.items()):
            file = Path(folder) / f"variant {number}.yaml"
            file.write_text(yaml.safe_dump(options), encoding="utf-8")
            files[name] = str(file)
        return Study(self.variants, self.axis, files)


def read_study(path: str) -> Study:
    """Read a study: ``variants`` (options by name) and, where one number is varied, ``axis`` (its option).

    Raises:
        UserError: the file is no study.
    """
    content = read_yaml(path)
    strange = sorted(map(str, set(content) - {"variants", "axis"}))
    if strange:
        raise UserError(f"study {path} has {strange}, but a study has `variants` and perhaps `axis`")
    variants, axis = content.get("variants"), content.get("axis")
    if not isinstance(variants, dict) or not variants or not all(isinstance(own, dict) for own in variants.values()):
        raise UserError(f"study {path}: `variants` must be lines of `name: {{option: value}}`, but is {variants!r}")
    if not (axis is None or isinstance(axis, str)):
        raise UserError(f"study {path}: `axis` must be the name of an option, but is {axis!r}")
    mistakes = [said for name, own in variants.items() for said in _mistakes(f"variant {name!r}", own, axis)]
    if mistakes:
        raise UserError(f"study {path}: {'; '.join(mistakes)}")
    return Study({" ".join(str(name).split()): own for name, own in variants.items()}, axis)


def _mistakes(variant: str, own: dict[str, Any], axis: str | None) -> list[str]:
    """What is wrong with a variant's options, but for those that no variant has."""
    found = []
    single = [key for key in own if key in SINGLE_RUN]
    if single:
        found.append(f"{variant} sets {single}, which are for a single run")
    decided = [key for key in own if key in DECIDED_BY_COMPARISON]
    if decided:
        found.append(
            f"{variant} sets {decided}, but all variants are evaluated alike; give such options for all, on the "
            "command line or in --config_files"
        )
    if axis is not None and axis not in own:
        found.append(f"`axis` is {axis}, which {variant} does not set")
    elif axis is not None and (isinstance(own[axis], bool) or not isinstance(own[axis], (int, float))):
        found.append(f"`axis` is {axis}, but {variant} gives it no number: {own[axis]!r}")
    return found
