"""The rule of a split at the same moment for all users: ``eval_args: {split: {GT: ...}}``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from recbole_bert4rec.options.kinds import Kind, OneOf, Real

_RULE: Mapping[str, Kind] = MappingProxyType(
    {"quantile": Real(0, 1, "()"), "target": OneOf(("last",)), "validation": OneOf(("GT", "LTI"))}
)
"""Share of all interactions that are not after the moment; whose item is predicted; how the rest is split."""


def mistakes_of_global_time(rule: object) -> list[str]:
    """List the mistakes in the rule of ``eval_args: {split: {GT: ...}}``, in words."""
    about = "`eval_args` split GT"
    if not isinstance(rule, dict):
        return [f"{about} must be a dictionary such as {{'quantile': 0.9}}, but is {rule!r}."]
    mistakes = [f"{about} has no {name!r}, but {list(_RULE)}." for name in rule if name not in _RULE]
    return mistakes + [
        f"{about}: {name} must be {kind.wanted}, but is {rule[name]!r}."
        for name, kind in _RULE.items()
        if name in rule and not kind.accepts(rule[name])
    ]
