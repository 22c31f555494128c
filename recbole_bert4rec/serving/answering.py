"""Answer questions by the model of a checkpoint, which may be replaced, and show the names of its items."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise, starmap
from logging import getLogger
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from prometheus_client import Counter

from recbole_bert4rec.logs.items import read_names
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.environment import folder_of_recbole
from recbole_bert4rec.system.errors import UserError

_SECONDS = 0.5
"""Time between two looks at the checkpoint."""
_RELOADS = Counter("recbole_bert4rec_reloads", "Checkpoints that were loaded anew", ["result"])


class ServedModel:
    """A model whose answers have the form in which they are sent."""

    def __init__(self, model: Recommender, names: dict[str, str]) -> None:
        self.model, self._items, self._names = model, list(model.items), names
        self._folded_ids = pd.Series([item.casefold() for item in self._items], dtype="string[pyarrow]")
        named = (names.get(item, "").casefold() for item in self._items)
        self._folded_names = pd.Series(list(named), dtype="string[pyarrow]")

    def recommend(self, histories: Sequence[Sequence[str]], *options: Any) -> list[dict[str, Any]]:
        """Return the next items of each history, and how many of its items the model does not know."""
        known = self.model.read(histories, warn=False)
        table = self.model.recommend(known, *options)
        lists = self._lists(table, table[self.model.fields[0]], len(histories))
        unknown = np.array([len(history) for history in histories]) - known.lengths
        return [{"items": items, "unknown": n} for items, n in zip(lists, unknown.tolist(), strict=True)]

    def similar(self, items: Sequence[tuple[str]], k: int) -> list[list[dict[str, Any]]]:
        """Return the items that are most like each of some items."""
        table = self.model.similar_items([item for (item,) in items], k)
        return self._lists(table, (table["rank"] == 1).cumsum() - 1, len(items))

    def explain(self, questions: Sequence[tuple[Sequence[str], str]]) -> list[dict[str, Any]]:
        """Return the influence of each item of a history on the score of an item, for pairs of both."""
        answers = []
        for found in starmap(self.model.explain, questions):
            reasons = [{**row, **self._shown(row["item"])} for row in found.table.to_dict("records")]
            answers.append({**self._shown(found.item), "score": found.score, "reasons": reasons})
        return answers

    def find(self, text: str, most: int) -> list[dict[str, str]]:
        """Return items whose id or name contains the text, in upper or lower case.

        An equal id comes first, then names that begin with the text, then names and then ids that contain it.
        """
        ids, names, text = self._folded_ids, self._folded_names, text.strip().casefold()
        contain = names.str.contains(text, regex=False), ids.str.contains(text, regex=False)
        matches = [ids == text, names.str.startswith(text), *contain]
        places = pd.unique(np.concatenate([np.flatnonzero(match) for match in matches]))
        return [self._shown(self._items[place]) for place in places[:most]]

    def _lists(self, table: pd.DataFrame, rows: pd.Series, n: int) -> list[list[dict[str, Any]]]:
        """Return the items of each of n rows; the table is sorted by row and rank."""
        pairs = zip(table[self.model.fields[1]].tolist(), table["score"].tolist(), strict=True)
        shown = [{**self._shown(item), "score": score} for item, score in pairs]
        return [shown[begin:end] for begin, end in pairwise(np.searchsorted(rows, range(n + 1)))]

    def _shown(self, item: str) -> dict[str, str]:
        return {"item": item, "name": self._names[item]} if item in self._names else {"item": item}


class FollowedCheckpoint:
    """A checkpoint, a file or an exported folder, that is loaded again, as a new ``current``, whenever it changes."""

    def __init__(self, path: str, load: Callable[[str], Recommender], items: str | None) -> None:
        self._path, self._load, self._stamp, self._loads = Path(path), load, _stamp(Path(path)), 0
        model = load(path)
        self._names = _names_beside(self._path, model) if items is None else _read_names(items, model)
        self._take(model)

    def _take(self, model: Recommender) -> None:
        self.current, self._loads = ServedModel(model, self._names), self._loads + 1
        self.about: dict[str, Any] = {
            "file": self._path.name,
            "model": str(model.config["model"]),
            "items": len(model.items),
            "viewed": model.viewed.why,
            "loaded": datetime.now(UTC).isoformat(timespec="seconds"),
            "loads": self._loads,
            "failure": None,
        }

    async def follow(self) -> None:
        """Look at the checkpoint again and again, until this is cancelled."""
        while True:
            await asyncio.sleep(_SECONDS)
            await asyncio.to_thread(self.update)

    def update(self) -> None:
        """Load the checkpoint if it has changed; keep the old model if that fails."""
        stamp = _stamp(self._path)
        if stamp is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._take(self._load(str(self._path)))
            result, said = "done", "was loaded anew"
        except Exception as error:  # whatever is wrong with the file, the service goes on
            self.about |= {"failure": str(error)}
            result, said = "failed", f"cannot be loaded, so the one before stays: {error}"
        getLogger(__name__).warning("%s %s", self._path, said)
        _RELOADS.labels(result).inc()


def _stamp(path: Path) -> list[tuple[int, int, int]] | None:
    """Return what changes if a checkpoint, or any file of an exported folder, is replaced or changed."""
    try:
        found = [file.stat() for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
    except OSError:  # it is being replaced
        return None
    return [(status.st_mtime_ns, status.st_size, status.st_ino) for status in found]


def _read_names(path: str, model: Recommender) -> dict[str, str]:
    """Return the names of items in a file, from its first column whose name is, or ends with, name or title."""
    ids, names = read_names(path, model.fields[1])
    catalogue = model.catalogue
    catalogue.known(ids, f"--items={path}", "one")
    numbers = catalogue.ids_of(ids)  # names of unknown items are kept: a later checkpoint may know them
    spelt = np.where(numbers == PADDING, ids, catalogue.tokens[numbers])
    return {item: name for item, name in zip(spelt, names, strict=True) if name}


def _names_beside(checkpoint: Path, model: Recommender) -> dict[str, str]:
    """Return the names of the data set's .item file: beside the checkpoint, or among the data of RecBole."""
    dataset, folders = str(model.config["dataset"]), [checkpoint.parent]
    with suppress(ModuleNotFoundError):  # RecBole need not be there
        if not model.config.get("conversion"):  # else it is the user's log, whatever its name
            folders.append(folder_of_recbole() / "dataset_example" / dataset)
    for file in (folder / f"{dataset}.item" for folder in folders):
        if file.is_file():
            try:
                names = _read_names(str(file), model)
                print(f"names of items from {file}; --items=FILE takes others", file=sys.stderr)
                return names
            except UserError as error:
                print(f"items have no names: {error}", file=sys.stderr)
    return {}
