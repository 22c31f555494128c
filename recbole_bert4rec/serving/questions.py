"""Questions over HTTP: their forms and limits."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

LARGEST_BODY = 1 << 20
"""Bytes of a question."""
_LISTS, _MOST_IDS, _MOST_SHOWN = 100, 100_000, 10_000
"""Lists of a question, ids of all its lists, and items of its answer."""
Item = Annotated[str, Field(max_length=256, coerce_numbers_to_str=True)]
"""An id of the log; a number is the same as its text."""
_Items = Annotated[tuple[Item, ...], Field(max_length=10_000, fail_fast=True)]


class _Question(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _ManyQuestions(_Question):
    """Is answered by a list of items for each of its parts."""

    k: int = Field(10, strict=True, ge=1, le=1000, description="items of each list")

    def parts(self) -> list[tuple[str, ...]]:
        """Return the ids from which each list is made."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _is_no_larger_than_may_be(self) -> Self:
        lists, ids = len(self.parts()), sum(map(len, self.parts()))
        if lists * self.k > _MOST_SHOWN or ids > _MOST_IDS:
            raise ValueError(
                f"{lists} lists of {self.k} items, asked with {ids:,} ids, are too much: ask for at most "
                f"{_MOST_SHOWN:,} items with {_MOST_IDS:,} ids at once"
            )
        return self


class RecommendQuestion(_ManyQuestions):
    """Which items come next after each of some histories."""

    histories: Annotated[list[_Items], Field(min_length=1, max_length=_LISTS, fail_fast=True)] = Field(
        description="ids of items, the oldest first; an empty history gets what is popular"
    )
    filter_viewed: StrictBool | Literal["auto"] = Field(
        "auto", description="leave the items of a history out; auto does what /health says under viewed"
    )
    items_to_recommend: _Items | None = Field(None, description="recommend only these")
    exclude: _Items | None = Field(None, description="do not recommend these")

    def parts(self) -> list[tuple[str, ...]]:
        """Return the histories."""
        return self.histories


class SimilarQuestion(_ManyQuestions):
    """Which items have vectors like those of some items."""

    items: Annotated[list[Item], Field(min_length=1, max_length=_LISTS, fail_fast=True)]

    def parts(self) -> list[tuple[str, ...]]:
        """Return each item as a list."""
        return [(item,) for item in self.items]


class ExplainQuestion(_Question):
    """How each item of a history influences the score of an item."""

    history: _Items = Field(min_length=1, description="ids of items, the oldest first")
    item: Item = Field(description="to explain")
