"""Asks a trained model about a file of any number of users: part by part, and on where it was stopped."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from recbole_bert4rec.datafiles.interactions import InteractionFile, join_tables, read_part, write_table
from recbole_bert4rec.errors import UserError, short
from recbole_bert4rec.files import atomic_write, locked
from recbole_bert4rec.recommend.answers import NobodyError
from recbole_bert4rec.recommend.recommender import Recommender


def answer_file(
    source: InteractionFile, output: str, asked: dict[str, Any], answer: Callable[[pd.DataFrame], pd.DataFrame]
) -> None:
    """Write a table with the answers for all users of a file, in memory that does not grow with it.

    The users are divided into parts. These and their answers lie in the folder OUTPUT.parts until all are there. The
    same call goes on after the finished parts of one that was stopped; another one starts anew.

    Args:
        source: the interactions.
        output: .csv or .parquet file.
        asked: plain values that the answers depend on, besides the source.
        answer: makes the table of a part.

    Raises:
        UserError: the source holds nothing or cannot be read, or the folder of the parts is somebody else's.
    """
    target = Path(output)
    folder = target.with_name(f"{target.name}.parts")
    mark, made_from = folder / "made_from.json", json.dumps({"source": source.identity, "asked": asked})
    if folder.exists() and not mark.is_file():
        raise UserError(f"--output={output}: parts go to {folder}, but there is something else; move it away")
    with locked(target.with_name(f".{target.name}.lock"), "command", "--output", target):
        if folder.exists() and mark.read_text("utf-8") != made_from:
            shutil.rmtree(folder)
        with atomic_write(mark) as temporary:
            temporary.write_text(made_from, encoding="utf-8")
        answers = []
        for part in tqdm(source.divide(folder / "input", source.n_parts), desc="parts", ncols=100, disable=None):
            answers.append(folder / f"{part.stem}{target.suffix}")
            if not answers[-1].is_file():
                table = answer(read_part(part))
                with atomic_write(answers[-1]) as temporary:
                    write_table(table, temporary, target.suffix)
        with atomic_write(target) as temporary:
            join_tables(answers, temporary, target.suffix)
        shutil.rmtree(folder)
    target.with_name(f".{target.name}.lock").unlink(missing_ok=True)


def evaluate_file(
    model: Recommender,
    source: InteractionFile,
    after: InteractionFile | None,
    topk: Sequence[int],
    filter_viewed: bool | None,
) -> dict[str, float]:
    """Return the metrics of :meth:`Recommender.evaluate` over all users of a file, part by part.

    Args:
        model: to judge.
        source: histories.
        after: what came next, a row a user; users who are in one of the files only are left out. None: the last item
            of each history.
        topk: lengths of the list.
        filter_viewed: see :meth:`Recommender.rank_of`.

    Raises:
        UserError: nobody can be evaluated, or a user has two targets.
    """
    user, item, _ = model.fields
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        parts = source.divide(Path(folder) / "input", source.n_parts)
        if after is not None:
            after.divide(Path(folder) / "after", source.n_parts)
        for part in tqdm(parts, desc="parts", ncols=100, disable=None):
            frame, targets = source.renamed(read_part(part), model.fields), None
            if after is not None:
                of_part = Path(folder) / "after" / part.name
                if not of_part.is_file():
                    continue
                last = after.renamed(read_part(of_part), model.fields)
                if last[user].duplicated().any():
                    raise UserError(
                        f"{after.path}: user {short(last[user][last[user].duplicated()].iloc[0])} stands twice"
                    )
                last = last[last[user].isin(frame[user])]
                frame = frame[frame[user].isin(last[user])]
                targets = dict(zip(last[user], last[item], strict=True))
            try:
                found = model.evaluate(model.read(frame, warn=False), targets, topk, filter_viewed)
            except NobodyError:
                continue
            users = found.pop("users")
            total.update({"users": users, **{name: value * users for name, value in found.items()}})
    if not total:
        raise NobodyError
    users = total.pop("users")
    return {**{name: value / users for name, value in total.items()}, "users": users}
