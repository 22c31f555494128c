"""Asks a trained model about a file of any number of users, part by part; a stopped call can be continued."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from recbole_bert4rec.logs.interactions import InteractionFile, join_tables, read_part, write_table
from recbole_bert4rec.recommend.ids import nothing_known
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import atomic_write, locked


class Part(NamedTuple):
    """Some of the users: the file of their interactions, and the file for their answers."""

    interactions: Path
    answers: Path


class Count(NamedTuple):
    """Counts of users and interactions of a file that was answered.

    Attributes:
        users: those with a row in the table.
        skipped: interactions that were left out because the model does not know their items.
        known: all other interactions.
        strangers: users with interactions, but with none that the model knows.
        without_row: users for whom no item is left.
    """

    users: int = 0
    skipped: int = 0
    known: int = 0
    strangers: int = 0
    without_row: int = 0


@dataclass(frozen=True)
class Question:
    """A question about all users of a file; it can be sent to another process.

    Attributes:
        file: what is asked about.
        how: arguments of :meth:`Recommender.recommend`.
    """

    file: Path
    how: Mapping[str, Any]

    def ask(self, model: Recommender, part: Part) -> Count:
        """Write the answers for a part of the users."""
        try:
            histories = model.read(read_part(part.interactions, model.fields), warn=False)
        except UserError as error:
            raise UserError(f"{self.file}, {error}") from error
        table = model.recommend(histories, **self.how)
        with atomic_write(part.answers) as temporary:
            write_table(table, temporary, part.answers.suffix)
        lengths = histories.lengths
        strangers = int((lengths == 0).sum()) if histories.skipped else 0
        answered = int(table[model.fields[0]].nunique())
        return Count(answered, histories.skipped, int(lengths.sum()), strangers, len(histories) - answered)


Answering = Callable[[list[Part]], Iterator[Count]]
"""Answers parts, in any order."""


def answer_file(
    source: InteractionFile, output: str, settings: dict[str, Any], answer: Answering, items: Sequence[str]
) -> Count:
    """Write a table with the answers for all users of a file, in memory that does not grow with it.

    The users are divided into parts. These and their answers lie in the folder OUTPUT.parts until all are there. The
    same call goes on after the finished parts of one that was stopped; another one starts again.
    """
    target = Path(output)
    folder = target.with_name(f"{target.name}.parts")
    mark, made_from = folder / "made_from.json", json.dumps({"source": source.identity, "asked": settings})
    if folder.exists() and not mark.is_file():
        raise UserError(f"--output={output}: parts go to {folder}, but there is something else; move it away")
    with locked(target.with_name(f".{target.name}.lock"), "command", "--output", target):
        if folder.exists() and mark.read_text("utf-8") != made_from:
            shutil.rmtree(folder)
        with atomic_write(mark) as temporary:
            temporary.write_text(made_from, encoding="utf-8")
        divided = source.divide(folder / "input", source.n_parts)
        (folder / "answers").mkdir(exist_ok=True)
        parts = [Part(file, folder / "answers" / f"{file.stem}{target.suffix or '.parquet'}") for file in divided]
        left = [part for part in parts if not part.answers.is_file()]
        done = len(parts) - len(left)
        bar = tqdm(answer(left), desc="parts", initial=done, total=len(parts), ncols=100, disable=None)
        count = Count(*map(sum, zip(Count(), *bar, strict=True)))
        if count.skipped and not count.known and not done:
            shutil.rmtree(folder)
            raise UserError(f"{source.path}: " + nothing_known("it", count.skipped, source.example(), items))
        _put_together([part.answers for part in parts], target)
        shutil.rmtree(folder)
    target.with_name(f".{target.name}.lock").unlink(missing_ok=True)
    return count


def _put_together(answers: list[Path], target: Path) -> None:
    """Make a file of the parts' answers, or move them to a folder."""
    if target.suffix:
        with atomic_write(target) as temporary:
            join_tables(answers, temporary, target.suffix)
        return
    shutil.rmtree(target, ignore_errors=True)
    answers[0].parent.rename(target)
