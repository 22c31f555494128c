"""Spaces of hyper-parameters: RecBole's grammar of lines and its YAML form, read without evaluating code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperopt import hp

from recbole_bert4rec.checkpoints import is_plain
from recbole_bert4rec.options.kinds import is_number, literal
from recbole_bert4rec.options.table import NOT_SEARCHED
from recbole_bert4rec.system.errors import UserError, short, why
from recbole_bert4rec.system.yaml_files import parse_yaml

BOUNDS = {"uniform": ("low", "high"), "quniform": ("low", "high", "step")}
BOUNDS |= {"loguniform": ("low", "high"), "loguniform10": ("low", "high")}
"""The numbers that each continuous kind takes. ``loguniform`` has RecBole's meaning: exp of a number between low and
high; ``loguniform10`` draws between low and high themselves, every power of ten alike."""

_MOST_MISTAKES = 20
"""Listed in one message."""


@dataclass(frozen=True)
class Parameter:
    """One line of a space.

    Attributes:
        kind: ``choice`` or a key of :data:`BOUNDS`.
        values: the choices, or the bounds.
    """

    name: str
    kind: str
    values: tuple[Any, ...]

    @property
    def whole(self) -> bool:
        """Whether a ``quniform`` steps over whole numbers, which options such as batch sizes must be."""
        return self.kind == "quniform" and all(float(value).is_integer() for value in self.values)

    def hyperopt(self) -> Any:
        """Return the parameter as hyperopt draws it."""
        if self.kind == "choice":
            return hp.choice(self.name, list(self.values))
        if self.kind == "loguniform10":
            return hp.loguniform(self.name, *map(math.log, self.values))
        return getattr(hp, self.kind)(self.name, *self.values)

    def value(self, drawn: float) -> Any:
        """Convert a draw of hyperopt to a value of the option."""
        if self.kind == "choice":
            return self.values[int(drawn)]
        number = float(drawn)
        if self.kind == "quniform":  # hyperopt rounds to steps counted from 0, which may leave the bounds
            number = min(max(number, float(self.values[0])), float(self.values[1]))
        return round(number) if self.whole else number

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

    def drawn(self, value: object) -> Any:
        """Convert a value of the option to a draw of hyperopt; the inverse of :meth:`value`."""
        if self.kind != "choice":
            return value
        return next(n for n, other in enumerate(self.values) if type(other) is type(value) and other == value)


@dataclass(frozen=True)
class Space:
    """Hyper-parameters to search over, in the order of their file."""

    parameters: tuple[Parameter, ...]

    @property
    def size(self) -> int | None:
        """Number of combinations; None if a parameter is continuous."""
        if any(parameter.kind != "choice" for parameter in self.parameters):
            return None
        return math.prod(len(parameter.values) for parameter in self.parameters)

    def grid(self) -> Iterator[dict[str, Any]]:
        """Yield every combination once; the last parameter changes fastest."""
        names = [parameter.name for parameter in self.parameters]
        for values in itertools.product(*(parameter.values for parameter in self.parameters)):
            yield dict(zip(names, values, strict=True))

    def hyperopt(self) -> dict[str, Any]:
        """Return the space as hyperopt takes it."""
        return {parameter.name: parameter.hyperopt() for parameter in self.parameters}

    def values(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """Convert draws of hyperopt, indices of choices and numbers, to options."""
        return {parameter.name: parameter.value(drawn[parameter.name]) for parameter in self.parameters}


def read_space(path: str | Path, why_not: Callable[[str], str | None] = lambda name: None) -> Space:
    """Read a space: a file of lines ``name kind values``, or YAML (.yaml, .yml) of ``kind: {name: values}``."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"parameter file {path} cannot be read: {why(error)}") from error
    if Path(path).suffix in (".yaml", ".yml"):
        entries, mistakes = _yaml_entries(parse_yaml(text, f"parameter file {path}"))
    else:
        entries, mistakes = _line_entries(text)
    parameters: dict[str, Parameter] = {}
    for where, name, kind, values in entries:
        mistake = f"{name} is there twice" if name in parameters else _mistake(kind, values) or why_not(name)
        if name in NOT_SEARCHED:
            mistake = f"{name} says what is compared and how; it cannot be searched"
        if mistake:
            mistakes.append(f"{where}: {mistake}")
        else:
            parameters[name] = Parameter(name, kind, tuple(_without_repeats(values) if kind == "choice" else values))
    if not entries and not mistakes:
        mistakes.append("there is no parameter in it")
    if mistakes:
        more = [f"and {len(mistakes) - _MOST_MISTAKES} more"] if len(mistakes) > _MOST_MISTAKES else []
        lines = "\n  ".join([*mistakes[:_MOST_MISTAKES], *more])
        raise UserError(
            f"parameter file {path} has mistakes; its lines are `name choice [1, 2]`, `name uniform 0,1`, "
            f"`name quniform 16,64,16`, `name loguniform -8,0` (exponents of e), `name loguniform10 1e-4,1e-2`, or "
            f"comments after #:\n  {lines}"
        )
    return Space(tuple(parameters.values()))


ParameterLine = tuple[str, str, str, list[Any]]
"""Line or key of the file, name, kind and values of a parameter."""


def _line_entries(text: str) -> tuple[list[ParameterLine], list[str]]:
    entries: list[ParameterLine] = []
    mistakes: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"line {number}"
        stated, _, comment = line.partition("#")
        while comment and stated.count("'") % 2 + stated.count('"') % 2:  # a # in quotes is none
            more, _, comment = comment.partition("#")
            stated += "#" + more
        words = stated.split(maxsplit=2)
        if not words:
            continue
        if len(words) < 3:
            mistakes.append(f"{where}: name, kind and values are needed, but it says {short(line.strip())}")
            continue
        name, kind, values_text = words
        values = literal(values_text if kind == "choice" else f"[{values_text.strip()}]")
        if isinstance(values, (list, tuple)):
            entries.append((where, name, kind, list(values)))
        else:
            form = "a list such as [0.1, 0.2] or ['a', 'b']" if kind == "choice" else "numbers such as 0.1,0.5"
            mistakes.append(f"{where}: the values must be {form}, but are {short(values_text)}")
    return entries, mistakes


def _yaml_entries(content: object) -> tuple[list[ParameterLine], list[str]]:
    """Return the parameters of a YAML file, and its mistakes."""
    form = "must hold {name: values}"
    if not isinstance(content, dict):
        return [], [f"it must hold `choice: {{name: [values]}}` and the like, but holds {short(content)}"]
    entries: list[ParameterLine] = []
    mistakes: list[str] = []
    for kind, named in content.items():
        if not isinstance(named, dict):
            mistakes.append(f"key {kind}: {form}, but holds {short(named)}")
            continue
        for name, values in named.items():
            if isinstance(values, list):
                entries.append((f"key {kind}: {name}", str(name), str(kind), values))
            else:
                mistakes.append(f"key {kind}: {name} must be a list, but is {short(values)}")
    return entries, mistakes


def _mistake(kind: str, values: list[Any]) -> str | None:
    if kind == "choice":
        other = [value for value in values if not _is_choice(value)]
        if other:
            return f"choices must be numbers, texts, True, False, None or lists of these, but one is {short(other[0])}"
        return None if values else "there is nothing to choose from"
    if kind not in BOUNDS:
        return f"the kind must be one of {['choice', *BOUNDS]}, but is {short(kind)}"
    names = BOUNDS[kind]
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


def _is_choice(value: object) -> bool:
    """Return whether a value survives the file of trials: hyperopt takes dictionaries and tuples for spaces."""
    if isinstance(value, list):
        return all(map(_is_choice, value))
    finite = not isinstance(value, float) or math.isfinite(value)
    return finite and is_plain(value) and not isinstance(value, (dict, tuple))


def _without_repeats(values: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if not any(type(value) is type(other) and value == other for other in kept):
            kept.append(value)
    return kept
