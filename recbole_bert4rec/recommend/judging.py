"""Evaluates a trained model on the users of a file, part by part, and says who and what is left out."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from tqdm import tqdm

from recbole_bert4rec.logs.interactions import InteractionFile, read_part
from recbole_bert4rec.recommend.answers import NobodyError
from recbole_bert4rec.recommend.ids import nothing_known
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.errors import UserError, short


class Judgement(NamedTuple):
    """Metrics, and the users and interactions that they leave out.

    Attributes:
        metrics: those of :meth:`Recommender.evaluate`.
        left_out: a sentence for each sort of rows that does not count, or counts as a miss.
    """

    metrics: dict[str, float]
    left_out: list[str]


def evaluate_file(
    model: Recommender,
    source: InteractionFile,
    after: InteractionFile | None,
    topk: Sequence[int],
    filter_viewed: bool | None,
) -> Judgement:
    """Return the metrics of :meth:`Recommender.evaluate` over all users of a file, part by part."""
    total, count, known = Counter[str](), Counter[str](), set(model.items)
    with tempfile.TemporaryDirectory() as folder:
        files = {file.name: file for file in source.divide(Path(folder) / "input", source.n_parts)}
        beside = {file.name: file for file in after.divide(Path(folder) / "after", source.n_parts)} if after else {}
        for name in tqdm(sorted({*files, *beside}), desc="parts", ncols=100, disable=None):
            frame, targets = _part(files.get(name), model), None
            if after is not None:
                frame, targets = _with_targets(frame, _part(beside.get(name), model), after, model, count)
                count["unknown"] += sum(item not in known for item in model.in_spelling(list(targets.values())))
            if not len(frame):
                continue
            histories = model.read(frame, warn=False)
            count.update({"skipped": histories.skipped, "read": int(histories.lengths.sum())})
            try:
                metrics = model.evaluate(histories, targets, topk, filter_viewed)
            except NobodyError:
                continue
            users = metrics.pop("users")
            total.update({"users": users, **{name: value * users for name, value in metrics.items()}})
    _refuse_strangers(model, source, after, count)
    if not total:
        raise NobodyError
    users = total.pop("users")
    metrics = {**{name: value / users for name, value in total.items()}, "users": users}
    return Judgement(metrics, _left_out(source, after, count))


def _part(file: Path | None, model: Recommender) -> pd.DataFrame:
    """Return a part of a file by the names of the model's columns; an empty one if the file has none of its users."""
    return pd.DataFrame(columns=list(model.fields)) if file is None else read_part(file, model.fields)


def _with_targets(
    frame: pd.DataFrame, last: pd.DataFrame, after: InteractionFile, model: Recommender, count: Counter[str]
) -> tuple[pd.DataFrame, dict[object, object]]:
    """Return the interactions of users who have a target, and their targets; count the others."""
    user, item, _ = model.fields
    if last[user].duplicated().any():
        raise UserError(f"{after.path}: user {short(last[user][last[user].duplicated()].iloc[0])} stands twice")
    targets = dict(zip(last[user], last[item], strict=True))
    users = set(frame[user])
    count["without target"] += len(users - targets.keys())
    count["without history"] += len(targets.keys() - users)
    targets = {name: target for name, target in targets.items() if name in users}
    count["targets"] += len(targets)
    return frame[frame[user].isin(targets.keys())], targets


def _refuse_strangers(
    model: Recommender, source: InteractionFile, after: InteractionFile | None, count: Counter[str]
) -> None:
    """Refuse files that have nothing to do with each other, or with the model."""
    if after is not None and not count["targets"]:
        raise UserError(
            f"{after.path}: none of its {count['without history']} users is in {source.path}, such as "
            f"{short(after.example(0))} and {short(source.example(0))}"
        )
    if count["skipped"] and not count["read"]:
        raise UserError(f"{source.path}: " + nothing_known("it", count["skipped"], source.example(), model.items))
    if after is not None and count["unknown"] == count["targets"]:
        raise UserError(f"{after.path}: " + nothing_known("it", count["unknown"], after.example(), model.items))


def _left_out(source: InteractionFile, after: InteractionFile | None, count: Counter[str]) -> list[str]:
    """Say who and what does not count, a sentence each."""
    sentences = []
    if count["skipped"]:
        sentences.append(
            f"{count['skipped']} of {count['skipped'] + count['read']} interactions are left out: the model does not "
            "know their items"
        )
    for lacking, users, other in (("without target", source, after), ("without history", after, source)):
        if count[lacking] and users is not None and other is not None:
            sentences.append(f"{count[lacking]} users of {users.path} are left out: they are not in {other.path}")
    if count["unknown"]:
        sentences.append(
            f"{count['unknown']} of {count['targets']} targets are items that the model does not know, and count as "
            "misses"
        )
    return sentences
