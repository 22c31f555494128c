"""Forms and limits of questions over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field, StrictBool

from recbole_bert4rec.system.errors import UserError

_MOST_IDS, _MOST_SHOWN = 100_000, 10_000
"""Most ids in all lists of a question, and most items of its answer."""
_LISTS = Field(min_length=1, max_length=100, fail_fast=True)
Item = Annotated[str, Field(max_length=256, coerce_numbers_to_str=True)]
"""An id of the log; a number is the same as its text."""
_Items = Annotated[tuple[Item, ...], Field(max_length=10_000, fail_fast=True)]
_K = Annotated[int, Field(strict=True, ge=1, le=1000, description="items of each list")]


class RecommendQuestion(BaseModel, extra="forbid"):
    """Which items come next after each of some histories."""

    histories: Annotated[list[_Items], _LISTS] = Field(
        description="ids of items, the oldest first; an empty history gets what is popular"
    )
    k: _K = 10
    filter_viewed: StrictBool | Literal["auto"] = Field(
        "auto", description="leave the items of a history out; auto does what /health says under viewed"
    )
    items_to_recommend: _Items | None = Field(None, description="recommend only these")
    exclude: _Items | None = Field(None, description="do not recommend these")


class SimilarQuestion(BaseModel, extra="forbid"):
    """Which items have vectors like those of some items."""

    items: Annotated[list[Item], _LISTS]
    k: _K = 10


class ExplainQuestion(BaseModel, extra="forbid"):
    """How each item of a history influences the score of an item."""

    history: _Items = Field(min_length=1, description="ids of items, the oldest first")
    item: Item = Field(description="to explain")


def check_size(lists: Sequence[Sequence[str]], k: int) -> None:
    """Refuse a question that asks for k items for each of too many or too long lists."""
    ids = sum(map(len, lists))
    if len(lists) * k > _MOST_SHOWN or ids > _MOST_IDS:
        raise UserError(
            f"{len(lists)} lists of {k} items, asked with {ids:,} ids, are too much: ask for at most "
            f"{_MOST_SHOWN:,} items with {_MOST_IDS:,} ids at once"
        )
