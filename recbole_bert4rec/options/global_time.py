"""Read the rule of a split at one moment for all users: ``eval_args: {split: {GT: ...}}``."""

from __future__ import annotations

from dataclasses import fields

from recbole_bert4rec.core.global_time import TARGETS, VALIDATIONS, GlobalTime
from recbole_bert4rec.options.kinds import Real, Whole
from recbole_bert4rec.system.errors import UserError


def global_time(rule: object) -> GlobalTime:
    """Return the rule of ``eval_args: {split: {GT: ...}}``.

    Raises:
        UserError: naming all mistakes.
    """
    mistakes = mistakes_of_global_time(rule)
    if mistakes:
        raise UserError(" ".join(mistakes))
    assert isinstance(rule, dict)
    return GlobalTime(**rule)


def mistakes_of_global_time(given: object) -> list[str]:
    """List what is wrong with the rule of ``eval_args: {split: {GT: ...}}``, in words."""
    about = "`eval_args` split GT"
    if not isinstance(given, dict):
        return [f"{about} must be a dictionary such as {{'quantile': 0.9}}, but is {given!r}."]
    names = [one.name for one in fields(GlobalTime)]
    found = [f"{about} has no {name!r}, but {names}." for name in given if name not in names]
    share = Real(0, 1, "()")
    if not share.accepts(given.get("quantile", 0.5)):
        found.append(f"{about}: quantile must be {share.wanted}, but is {given['quantile']!r}.")
    if not (share.accepts(given.get("users", 1)) or Whole(1).accepts(given.get("users", 1))):
        found.append(f"{about}: users must be a share between 0 and 1, or a number, but is {given['users']!r}.")
    for name, known in (("target", TARGETS), ("validation", VALIDATIONS)):
        if given.get(name, known[0]) not in known:
            found.append(f"{about}: {name} must be one of {list(known)}, but is {given[name]!r}.")
    return found
