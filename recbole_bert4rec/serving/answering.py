"""Answers questions with the models as they are now; questions that agree are one call of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import pandas as pd

from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.serving.items import ItemFile, Search
from recbole_bert4rec.serving.questions import (
    ExplainAnswer,
    ExplainQuestion,
    Question,
    Ranked,
    Reason,
    RecommendAnswer,
    Recommended,
    RecommendQuestion,
    SimilarAnswer,
    SimilarQuestion,
)
from recbole_bert4rec.serving.reload import Followed
from recbole_bert4rec.system.errors import UserError

Answer = RecommendAnswer | SimilarAnswer | ExplainAnswer


class Served(NamedTuple):
    """A loaded checkpoint.

    Attributes:
        model: that answers.
        search: in its catalogue.
    """

    model: Recommender
    search: Search


def follow_checkpoint(
    path: str, load: Callable[[str], Recommender], items: ItemFile, observe: Callable[[bool], None]
) -> Followed[Served]:
    """Load a checkpoint, and anew when another one takes its place.

    Args:
        path: of the file.
        load: the model of a file.
        items: names of items, to search by.
        observe: is told of each later load whether it went well.

    Raises:
        UserError: it is no checkpoint of this package.
    """

    def make() -> Served:
        model = load(path)
        return Served(model, Search(model.items, items.names_of(model.items)))

    return Followed(path, make, observe)


class Answerer:
    """Answers questions.

    Args:
        served: the checkpoint and, where there is one, the compared one.
        items: their names.
    """

    def __init__(self, served: Sequence[Followed[Served]], items: ItemFile) -> None:
        self._served, self._items = served, items

    def __call__(self, questions: Sequence[Question]) -> list[Answer | Exception]:
        """Return for each question its answer, or what is wrong with it."""
        groups: dict[Any, list[int]] = {}
        for place, question in enumerate(questions):
            groups.setdefault(question.agree_in(), []).append(place)
        answers: dict[int, Answer | Exception] = {}
        for places in groups.values():
            answers |= zip(places, self._together([questions[place] for place in places]), strict=True)
        return [answers[place] for place in range(len(questions))]

    def _together(self, group: Sequence[Any]) -> Sequence[Answer | Exception]:
        """Answer questions that agree; each alone where one of them makes them all fail."""
        first = group[0]
        try:
            if first.compared and len(self._served) < 2:
                raise UserError("`compared` asks a second checkpoint, but the service was started without --compare")
            model = self._served[first.compared].current.model
            if isinstance(first, RecommendQuestion):
                return self._recommend(model, group)
            if isinstance(first, SimilarQuestion):
                return self._similar(model, group)
            return [self._explain(model, question) for question in group]
        except Exception as error:  # is raised where the question was asked
            if len(group) == 1:
                return [error]
            return [answer for question in group for answer in self._together([question])]

    def _recommend(self, model: Recommender, group: Sequence[RecommendQuestion]) -> list[RecommendAnswer]:
        first = group[0]
        histories = [history for question in group for history in question.histories]
        times = None if first.times is None else [one for question in group for one in question.times or ()]
        known = model.read(histories, times, warn=False)
        table = model.recommend(
            known, first.k, first.filter_viewed, first.items_to_recommend, first.exclude, diversity=first.diversity
        )
        user, item, _ = model.fields
        lists = self._lists(len(histories), table[user], table[item], table["score"])
        lengths = known.sequences.lengths.tolist()
        answers = [
            Recommended(items=items, unknown=len(history) - length)
            for items, history, length in zip(lists, histories, lengths, strict=True)
        ]
        rest = iter(answers)
        return [RecommendAnswer(answers=list(islice(rest, len(question.histories)))) for question in group]

    def _similar(self, model: Recommender, group: Sequence[SimilarQuestion]) -> list[SimilarAnswer]:
        places = {item: place for place, item in enumerate(dict.fromkeys(chain(*(one.items for one in group))))}
        table = model.similar_items(list(places), group[0].k)
        field = model.fields[1]
        lists = self._lists(len(places), table[f"target_{field}"].map(places), table[field], table["score"])
        return [SimilarAnswer(answers=[lists[places[item]] for item in question.items]) for question in group]

    def _explain(self, model: Recommender, question: ExplainQuestion) -> ExplainAnswer:
        found = model.explain(question.history, question.item, question.times)
        columns = (found.table[name].tolist() for name in ("position", "item", "influence", "attention"))
        reasons = [
            Reason(**self._items.show(item), position=position, influence=influence, attention=attention)
            for position, item, influence, attention in zip(*columns, strict=True)
        ]
        return ExplainAnswer(**self._items.show(found.item), score=found.score, reasons=reasons)

    def _lists(self, n: int, rows: pd.Series, items: pd.Series, scores: pd.Series) -> list[list[Ranked]]:
        """Return the items of each of n rows; the table is sorted by rank."""
        lists: list[list[Ranked]] = [[] for _ in range(n)]
        for row, item, score in zip(rows.tolist(), items.tolist(), scores.tolist(), strict=True):
            lists[row].append(Ranked(**self._items.show(item), score=score))
        return lists
