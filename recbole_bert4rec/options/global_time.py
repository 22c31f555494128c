"""The rule of a split at the same moment for all users: ``eval_args: {split: {GT: ...}}``."""

from __future__ import annotations

from dataclasses import dataclass, fields

from recbole_bert4rec.options.kinds import Real
from recbole_bert4rec.system.errors import UserError

TARGETS = ("last", "first", "random")
VALIDATIONS = ("GT", "LTI")


@dataclass(frozen=True)
class GlobalTime:
    """The rule of a split.

    Attributes:
        quantile: share of all interactions that are not after the moment, in (0, 1).
        target: which of a user's interactions after the moment is predicted: ``last``, ``first`` or ``random``.
        validation: ``GT`` splits what is left by the same rule; ``LTI`` takes the last interaction of each user that
            is left.
    """

    quantile: float = 0.9
    target: str = "last"
    validation: str = "GT"


def global_time(rule: object) -> GlobalTime:
    """Return the rule of ``eval_args: {split: {GT: ...}}``."""
    mistakes = mistakes_of_global_time(rule)
    if mistakes:
        raise UserError(" ".join(mistakes))
    assert isinstance(rule, dict)
    return GlobalTime(**rule)


def mistakes_of_global_time(rule: object) -> list[str]:
    """List the mistakes in the rule of ``eval_args: {split: {GT: ...}}``, in words."""
    about = "`eval_args` split GT"
    if not isinstance(rule, dict):
        return [f"{about} must be a dictionary such as {{'quantile': 0.9}}, but is {rule!r}."]
    names = [field.name for field in fields(GlobalTime)]
    mistakes = [f"{about} has no {name!r}, but {names}." for name in rule if name not in names]
    share = Real(0, 1, "()")
    if not share.accepts(rule.get("quantile", 0.5)):
        mistakes.append(f"{about}: quantile must be {share.wanted}, but is {rule['quantile']!r}.")
    for name, known in (("target", TARGETS), ("validation", VALIDATIONS)):
        if rule.get(name, known[0]) not in known:
            mistakes.append(f"{about}: {name} must be one of {list(known)}, but is {rule[name]!r}.")
    return mistakes
