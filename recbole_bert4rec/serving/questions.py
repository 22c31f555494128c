"""Questions and answers over HTTP: their forms, limits and descriptions."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)

LARGEST_BODY = 1 << 20
"""Bytes of a request."""
_LONGEST, _HISTORIES, _LARGEST_K = 10_000, 100, 1000
_MOST_IDS = 100_000
"""Of all lists of a question; each takes some 64 bytes as long as the question waits."""
_LARGEST_ANSWER = 10_000
"""Items of all lists of an answer."""
_WORK_OF_HISTORY, _WORK_OF_ID = 100, 0.1
"""Work of the model for each, counted in items of an answer; measured roughly."""


def _as_text(value: object) -> object:
    return str(value) if type(value) is int else value


Item = Annotated[
    StrictStr,
    Field(max_length=256),
    BeforeValidator(_as_text),
    WithJsonSchema({"type": ["string", "integer"], "maxLength": 256}),
]
"""An id of the log; a number is the same as its text."""
_Items = Annotated[list[Item], Field(fail_fast=True, max_length=_LONGEST)]
_K = Annotated[StrictInt, Field(ge=1, le=_LARGEST_K, description="items of each list")]


class ServiceQuestion(BaseModel):
    """The keys of all questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    compared: StrictBool = Field(False, description="ask the checkpoint of --compare")

    def agree_in(self) -> Hashable:
        """Return a key: questions with equal keys are answered together."""
        return id(self)

    @property
    def work(self) -> float:
        """Cost of the answer, counted in items of an answer."""
        raise NotImplementedError


def _check_size(lists: int, k: int) -> None:
    """Refuse a question whose answer is too large."""
    if lists * k > _LARGEST_ANSWER:
        raise ValueError(
            f"{lists} lists of k {k} are {lists * k:,} items, more than {_LARGEST_ANSWER:,}; ask for fewer at once"
        )


class RecommendQuestion(ServiceQuestion):
    """Which items come next after each of some histories."""

    histories: Annotated[list[_Items], Field(fail_fast=True, min_length=1, max_length=_HISTORIES)] = Field(
        description="ids of items, the oldest first; an empty history gets what is popular"
    )
    k: _K = 10
    filter_viewed: Annotated[Literal[True, False, "auto"], BeforeValidator(_as_text)] = Field(
        "auto", description="leave the items of a history out; auto does what /health says under viewed"
    )
    items_to_recommend: _Items | None = Field(None, description="recommend only these")
    exclude: _Items | None = Field(None, description="do not recommend these")

    @model_validator(mode="after")
    def _is_no_larger_than_may_be(self) -> Self:
        _check_size(len(self.histories), self.k)
        if self._n_ids() > _MOST_IDS:
            raise ValueError(f"the lists have {self._n_ids():,} ids, more than {_MOST_IDS:,}; ask for fewer at once")
        return self

    def _n_ids(self) -> int:
        return sum(map(len, self.histories)) + len(self.items_to_recommend or ()) + len(self.exclude or ())

    @property
    def work(self) -> float:
        """Of the histories, their ids and the answer."""
        return len(self.histories) * (_WORK_OF_HISTORY + self.k) + self._n_ids() * _WORK_OF_ID

    def agree_in(self) -> Hashable:
        """Return all but the histories."""
        items = (None if some is None else tuple(some) for some in (self.items_to_recommend, self.exclude))
        return type(self), self.compared, self.k, self.filter_viewed, *items


class SimilarQuestion(ServiceQuestion):
    """Which items have vectors like those of some items."""

    items: Annotated[list[Item], Field(fail_fast=True, min_length=1, max_length=_HISTORIES)]
    k: _K = 10

    @model_validator(mode="after")
    def _is_no_larger_than_may_be(self) -> Self:
        _check_size(len(self.items), self.k)
        return self

    @property
    def work(self) -> float:
        """Of the answer."""
        return len(self.items) * (_WORK_OF_HISTORY + self.k)

    def agree_in(self) -> Hashable:
        """Return all but the items."""
        return type(self), self.compared, self.k


class ExplainQuestion(ServiceQuestion):
    """How each item of a history influences the score of an item."""

    history: _Items = Field(min_length=1, description="ids of items, the oldest first")
    item: Item = Field(description="to explain")

    @property
    def work(self) -> float:
        """Of the history without each of its items."""
        return _WORK_OF_HISTORY * (10 + min(len(self.history), 200)) + len(self.history) * _WORK_OF_ID


class Shown(BaseModel):
    """An item, with its name if the .item file has it."""

    item: str
    name: str | None = None


class Ranked(Shown):
    """An item of a list, the best first."""

    score: float


class Recommended(BaseModel):
    """Of one history."""

    items: list[Ranked]
    unknown: int = Field(description="items of the history that the model does not know; they are left out")


class RecommendAnswer(BaseModel):
    """Of all histories, in their order."""

    answers: list[Recommended]


class SimilarAnswer(BaseModel):
    """Of all items, in their order."""

    answers: list[list[Ranked]]


class Reason(Shown):
    """An item of the history."""

    position: int = Field(description="counted back from the end; 0 is the last")
    influence: float = Field(description="by how much the score would be lower without it")


class ExplainAnswer(Shown):
    """Of the items that the model sees of the history, the oldest first."""

    score: float
    reasons: list[Reason]


class SearchAnswer(BaseModel):
    """Items of the catalogue, the best match first."""

    items: list[Shown]


class Checkpoint(BaseModel):
    """A model that is served."""

    file: str
    model: str
    items: int
    viewed: str = Field(description="what filter_viewed=auto does")
    loaded: str = Field(description="when, in UTC")
    loads: int = Field(description="how often since the start")
    failure: str | None = Field(description="why the file as it is now could not be loaded")


class Health(BaseModel):
    """The state of the service."""

    status: Literal["ok"] = "ok"
    checkpoints: list[Checkpoint] = Field(description="of --checkpoint and, where there is one, of --compare")


class Mistake(BaseModel):
    """Why a request was refused."""

    detail: str
