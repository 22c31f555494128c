"""Spaces of hyper-parameters: RecBole's grammar of lines and its YAML form, read without evaluating code."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hyperopt import hp
from hyperopt.pyll.stochastic import sample

from recbole_bert4rec.checkpoints import is_plain
from recbole_bert4rec.options.kinds import is_number, literal
from recbole_bert4rec.options.table import NOT_SEARCHED
from recbole_bert4rec.system.errors import UserError, short, why
from recbole_bert4rec.system.yaml_files import parse_yaml

_RANGES = {"uniform": ("low", "high"), "quniform": ("low", "high", "step")}
_RANGES |= {"loguniform": ("low", "high"), "loguniform10": ("low", "high")}
"""The numbers that each continuous kind takes. ``loguniform`` has RecBole's meaning: exp of a number between low and
high; ``loguniform10`` draws between low and high themselves, every power of ten alike."""
_DRAWS = 20
"""Draws for each random setting that is wanted, as a draw may repeat an earlier one; of a few settings, many more."""


@dataclass(frozen=True)
class Parameter:
    """One line of a space: an option, and its choices or the numbers of its range."""

    name: str
    kind: str
    values: tuple[Any, ...]

    def hyperopt(self) -> Any:
        """Return the parameter as hyperopt draws it; a choice by its position, since hyperopt takes lists apart."""
        if self.kind == "choice":
            return hp.choice(self.name, list(range(len(self.values))))
        if self.kind == "loguniform10":
            return hp.loguniform(self.name, *map(math.log, self.values))
        return getattr(hp, self.kind)(self.name, *self.values)

    def value(self, drawn: float) -> Any:
        """Return the value of the option that a draw of hyperopt stands for."""
        if self.kind == "choice":
            return self.values[int(drawn)]
        if self.kind != "quniform":
            return float(drawn)
        low, high = self.bounds
        number = min(max(float(drawn), low), high)  # hyperopt counts its steps from 0, which may leave the bounds
        whole = all(float(value).is_integer() for value in self.values)  # which options such as batch sizes must be
        return round(number) if whole else number

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value of a range."""
        low, high = (math.exp(value) if self.kind == "loguniform" else float(value) for value in self.values[:2])
        return low, high

    def __str__(self) -> str:
        """Return the name and all values, or the ends of their range."""
        if self.kind == "choice":
            return f"{self.name} {', '.join(map(str, self.values))}"
        low, high = self.bounds
        steps = f" in steps of {self.values[2]}" if self.kind == "quniform" else ""
        return f"{self.name} from {low:.7g} to {high:.7g}{steps}"


Space = tuple[Parameter, ...]
"""The options to search over, in the order of their file."""


def key_of(setting: Mapping[str, Any]) -> str:
    """Return a text that two settings share if, and only if, they are the same."""
    return json.dumps(setting, sort_keys=True)


def of_draws(space: Space, draws: Mapping[str, float]) -> dict[str, Any]:
    """Return the setting that draws of hyperopt stand for."""
    return {parameter.name: parameter.value(draws[parameter.name]) for parameter in space}


def proposals(space: Space, algorithm: str, count: int, seed: int) -> list[dict[str, Any]] | None:
    """Return the distinct settings of an exhaustive or random search; None if they depend on scores of earlier ones."""
    if algorithm == "bayes":
        return None
    if algorithm == "random":
        nodes, generator = hyperopt_space(space), np.random.default_rng(seed)
        settings: dict[str, dict[str, Any]] = {}
        draws = (of_draws(space, sample(nodes, generator)) for _ in range(_DRAWS * max(count, 10)))
        while len(settings) < size_at_most(space, count) and (setting := next(draws, None)) is not None:
            settings.setdefault(key_of(setting), setting)
        return list(settings.values())
    if ranges := [parameter.name for parameter in space if parameter.kind != "choice"]:
        raise UserError(
            f"--algo=exhaustive needs choices alone, but {', '.join(ranges)} take any number of a range; use "
            "--algo=random or --algo=bayes"
        )
    names = [parameter.name for parameter in space]  # the last one changes fastest
    combinations = itertools.product(*(parameter.values for parameter in space))
    return [dict(zip(names, values, strict=True)) for values in combinations]


def hyperopt_space(space: Space) -> dict[str, Any]:
    """Return a space as hyperopt takes it."""
    return {parameter.name: parameter.hyperopt() for parameter in space}


def size_at_most(space: Space, count: int) -> int:
    """Return ``count``, or the number of combinations if there are fewer."""
    sizes = (len(parameter.values) if parameter.kind == "choice" else count for parameter in space)
    return min(count, math.prod(sizes))


def read_space(path: str | Path, why_not: Callable[[str], str | None] = lambda name: None) -> Space:
    """Read a space: a file of lines ``name kind values``, or YAML (.yaml, .yml) of ``kind: {name: values}``."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"parameter file {path} cannot be read: {why(error)}") from error
    of_yaml = Path(path).suffix in (".yaml", ".yml")
    space: dict[str, Parameter] = {}
    mistakes = []
    for where, name, kind, values in _of_yaml(text, f"parameter file {path}") if of_yaml else _of_lines(text):
        mistake = f"{name} is there twice" if name in space else _mistake(name, kind, values) or why_not(name)
        if name in NOT_SEARCHED:
            mistake = f"{name} says what is compared and how; it cannot be searched"
        if mistake:
            mistakes.append(f"{where}: {mistake}")
        elif kind == "choice":  # 1 and True are equal in Python, and two choices here
            space[name] = Parameter(name, kind, tuple({repr(value): value for value in values}.values()))
        else:
            space[name] = Parameter(name, kind, tuple(values))
    if not space and not mistakes:
        mistakes = ["there is no parameter in it"]
    if mistakes:
        lines = "\n  ".join(mistakes)
        raise UserError(
            f"parameter file {path} has mistakes; its lines are `name choice [1, 2]`, `name uniform 0,1`, "
            f"`name quniform 16,64,16`, `name loguniform -8,0` (exponents of e), `name loguniform10 1e-4,1e-2`, or "
            f"comments after #:\n  {lines}"
        )
    return tuple(space.values())


def _of_lines(text: str) -> Iterator[tuple[str, str, str, Any]]:
    """Yield place, name, kind and values of each line; what is missing is empty."""
    for number, line in enumerate(text.splitlines(), 1):
        if words := line.partition("#")[0].split(maxsplit=2):
            name, kind, values = [*words, "", ""][:3]
            yield f"line {number}", name, kind, literal(values if kind == "choice" else f"[{values.strip()}]")


def _of_yaml(text: str, where: str) -> Iterator[tuple[str, str, str, Any]]:
    """Yield the same of each parameter of a YAML file."""
    content = parse_yaml(text, where) or {}
    if not isinstance(content, dict):
        raise UserError(f"{where} must hold `choice: {{name: [values]}}` and the like, but holds {short(content)}")
    for kind, named in content.items():
        for name, values in named.items() if isinstance(named, dict) else [("", named)]:
            yield f"key {kind}: {name}", str(name), str(kind), values


def _mistake(name: str, kind: str, values: Any) -> str | None:
    """Say what is wrong with a parameter."""
    names = _RANGES.get(kind, ())
    if not names and kind != "choice":
        return f"the kind must be one of {['choice', *_RANGES]}, but is {short(kind)}"
    if not name or not isinstance(values, (list, tuple)):
        form = "numbers such as 0.1,0.5" if names else "a list such as [0.1, 0.2] or ['a', 'b']"
        return f"a name and its values are needed, {form}, but it has {short(values)}"
    if not names:
        return None if values and is_plain(values) else f"choices must be numbers, texts and the like: {short(values)}"
    if len(values) != len(names) or not all(map(is_number, values)):
        return f"{kind} takes {len(names)} numbers ({', '.join(names)}), but got {short(values)}"
    if values[0] >= values[1]:
        return f"low must be less than high, but they are {short(values[0])} and {short(values[1])}"
    if kind == "quniform" and values[2] <= 0:
        return f"the step must be above 0, but is {short(values[2])}"
    if kind == "loguniform10" and values[0] <= 0:
        return f"the bounds must be above 0, but low is {short(values[0])}"
    if kind == "loguniform" and values[1] > 700:
        return f"the bounds are exponents of e, but high is {values[1]}; for the numbers themselves use loguniform10"
    return None
