"""Ids of one column that differ in their spelling alone: how many there are, and one spelling for each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recbole_bert4rec.system.errors import UserError, short

Texts: TypeAlias = "pa.Array[Any]"


def _in_one_form(texts: Texts) -> Texts:
    """Compose signs with their accents (Unicode's NFC); pyarrow's own function takes them apart."""
    other = pc.invert(pc.string_is_ascii(texts))
    if not pc.any(other).as_py():
        return texts
    composed = [None if text is None else normalize("NFC", text) for text in texts.filter(other).to_pylist()]
    replaced: Texts = pc.replace_with_mask(texts, other, pa.array(composed, texts.type))
    return replaced


WHOLE = r"^([+-]?\d+)\.0+$"
"""Pattern of a whole number in a column of which a program made floats."""
_REWRITTEN: Mapping[str, Callable[[Texts], Texts]] = {
    "spaces": lambda texts: pc.utf8_trim_whitespace(texts),
    "form": _in_one_form,
    "point": lambda texts: pc.replace_substring_regex(texts, WHOLE, r"\1"),
}
"""Differences that rewriting an id removes, and how."""
_COMPARED: Mapping[str, Callable[[Texts], Texts]] = {
    "case": lambda texts: pc.utf8_lower(texts),
    "zeros": lambda texts: pc.replace_substring_regex(texts, r"^0+(\d+)$", r"\1"),
}
"""Differences that are kept as in the first spelling, and what is compared instead."""
_IN_WORDS = {
    "spaces": "in spaces around them",
    "form": "in their Unicode form",
    "point": "in a '.0' at their end",
    "case": "in upper and lower case",
    "zeros": "in leading zeros",
}
KINDS = tuple(_IN_WORDS)
"""Values of ``clean_ids``."""


def kinds_asked(value: object) -> list[str]:
    """Return the kinds that an option ``clean_ids`` names: True, one, or several, as a list or with commas.

    Raises:
        UserError: it names another one.
    """
    if value is None or str(value) in ("False", ""):
        return []
    if str(value) == "True":
        return list(KINDS)
    names = list(value) if isinstance(value, (list, tuple)) else str(value).strip("[]").split(",")
    kinds = [str(name).strip().strip("'\"") for name in names]
    if unknown := [name for name in kinds if name not in KINDS]:
        raise UserError(f"`clean_ids` must be True or some of {', '.join(KINDS)}, but names {short(unknown[0])}")
    return kinds


def rewritten(texts: Texts, kinds: Collection[str]) -> Texts:
    """Return ids without spaces around them, in one Unicode form, and without ``.0``, as ``kinds`` name it."""
    for kind, change in _REWRITTEN.items():
        texts = change(texts) if kind in kinds else texts
    return texts


def keys(texts: Texts, kinds: Collection[str]) -> Texts:
    """Return the keys of ids; ids that count as one have the same key.

    ``keys(["I1 ", "i1", "i01"], ["spaces", "case"])`` is ``["i1", "i1", "i01"]``.
    """
    texts = rewritten(texts, kinds)
    for kind, change in _COMPARED.items():
        texts = change(texts) if kind in kinds else texts
    return texts


def doubts(tokens: Texts, name: str) -> list[str]:
    """Say of how many ids there are others that differ in spelling alone, a sentence for each kind of difference.

    Args:
        tokens: the distinct ids of a column.
        name: of the column.
    """
    sentences = []
    for kind, how in _IN_WORDS.items():
        plain = keys(tokens, [kind])
        if not pc.any(pc.not_equal(plain, tokens)).as_py():
            continue
        counts = pc.value_counts(plain)
        several = counts.filter(pc.greater(counts.field(1), pa.scalar(1))).field(0)
        if not len(several):
            continue
        number = int(np.count_nonzero(pc.is_in(plain, several)))
        first, other, *_ = tokens.filter(pc.equal(plain, several[0])).to_pylist()
        sentences.append(
            f"{number:,} of {len(tokens):,} ids of {name!r} differ from another one only {how}, such as {short(first)} "
            f"and {short(other)}; --clean_ids={kind} takes them for one"
        )
    return sentences
