"""Answer questions with the latest models; questions that agree are one call of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import pandas as pd

from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.serving.items import ItemFile, ItemSearch
from recbole_bert4rec.serving.questions import (
    ExplainAnswer,
    ExplainQuestion,
    Ranked,
    Reason,
    RecommendAnswer,
    Recommended,
    RecommendQuestion,
    ServiceQuestion,
    SimilarAnswer,
    SimilarQuestion,
)
from recbole_bert4rec.serving.reload import ReloadingFile
from recbole_bert4rec.system.errors import UserError

Answer = RecommendAnswer | SimilarAnswer | ExplainAnswer


class Served(NamedTuple):
    """A loaded checkpoint.

    Attributes:
        model: answers.
        search: searches its catalogue.
    """

    model: Recommender
    search: ItemSearch


def follow_checkpoint(
    path: str, load: Callable[[str], Recommender], items: ItemFile, observe: Callable[[bool], None]
) -> ReloadingFile[Served]:
    """Load a checkpoint, and reload it whenever its file is replaced."""

    def make() -> Served:
        model = load(path)
        return Served(model, ItemSearch(model.items, items.names_of(model.items)))

    return ReloadingFile(path, make, observe)


class Answerer:
    """Answers questions."""

    def __init__(self, served: Sequence[ReloadingFile[Served]], items: ItemFile) -> None:
        self._served, self._items = served, items

    def __call__(self, questions: Sequence[ServiceQuestion]) -> list[Answer | Exception]:
        """Return the answer, or the error, of each question."""
        groups: dict[Any, list[int]] = {}
        for index, question in enumerate(questions):
            groups.setdefault(question.agree_in(), []).append(index)
        answers: dict[int, Answer | Exception] = {}
        for indices in groups.values():
            answers |= zip(indices, self._together([questions[index] for index in indices]), strict=True)
        return [answers[index] for index in range(len(questions))]

    def _together(self, group: Sequence[Any]) -> Sequence[Answer | Exception]:
        """Answer questions that agree; if one makes them fail, each by itself."""
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
        except Exception as error:  # to be raised for the asker
            if len(group) == 1:
                return [error]
            return [answer for question in group for answer in self._together([question])]

    def _recommend(self, model: Recommender, group: Sequence[RecommendQuestion]) -> list[RecommendAnswer]:
        first = group[0]
        histories = [history for question in group for history in question.histories]
        known = model.read(histories, warn=False)
        table = model.recommend(known, first.k, first.filter_viewed, first.items_to_recommend, first.exclude)
        user, item, _ = model.fields
        lists = self._lists(len(histories), table[user], table[item], table["score"])
        lengths = known.lengths.tolist()
        answers = [
            Recommended(items=items, unknown=len(history) - length)
            for items, history, length in zip(lists, histories, lengths, strict=True)
        ]
        rest = iter(answers)
        return [RecommendAnswer(answers=list(islice(rest, len(question.histories)))) for question in group]

    def _similar(self, model: Recommender, group: Sequence[SimilarQuestion]) -> list[SimilarAnswer]:
        rows = {item: row for row, item in enumerate(dict.fromkeys(chain(*(question.items for question in group))))}
        table = model.similar_items(list(rows), group[0].k)
        field = model.fields[1]
        lists = self._lists(len(rows), table[f"target_{field}"].map(rows), table[field], table["score"])
        return [SimilarAnswer(answers=[lists[rows[item]] for item in question.items]) for question in group]

    def _explain(self, model: Recommender, question: ExplainQuestion) -> ExplainAnswer:
        explanation = model.explain(question.history, question.item)
        rows: Any = explanation.table.to_dict("records")
        reasons = [Reason(**self._items.show(row.pop("item")), **row) for row in rows]
        return ExplainAnswer(**self._items.show(explanation.item), score=explanation.score, reasons=reasons)

    def _lists(self, n: int, rows: pd.Series, items: pd.Series, scores: pd.Series) -> list[list[Ranked]]:
        """Return the items of each of n rows; the table is sorted by rank."""
        lists: list[list[Ranked]] = [[] for _ in range(n)]
        for row, item, score in zip(rows.tolist(), items.tolist(), scores.tolist(), strict=True):
            lists[row].append(Ranked(**self._items.show(item), score=score))
        return lists
