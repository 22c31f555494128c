"""A log that grows day by day: warm start against training anew each day, the time of each, and what is forgotten.

The days are simulated from the order of each user's items: a user arrives at a drawn moment and goes through the
history at an even pace for a ``--stay`` of the whole time. The first ``--begin`` of the interactions is the log of day
0, the rest comes in ``--days`` of equal size. Each day there are three models: ``anew`` is trained on that day's log
for ``--epochs``; ``warm`` begins with the day before's and is trained for ``--warm_epochs``; ``day 0`` stays as it was.
Each ranks the last item of every user with four items or more in that day's log, which no training saw. ``old users``
are those whose history was over on day 0: what ``warm`` loses on them is forgotten. What ``--work`` holds is not run
again, so the same command goes on; no run begins after ``--minutes``. Other flags are options of all runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from records import machine, run_options, write_inter, write_tables

from recbole_bert4rec.recommend.load import load
from recbole_bert4rec.system.environment import suppress_dependency_warnings

COLUMNS = ["user_id", "item_id", "timestamp"]
LEAST = 4
"""Items of a user who is ranked: one to train with after a first one, one to validate, one to test."""


def read_log(folder: Path, name: str) -> pd.DataFrame:
    """All interactions, each user's in their order."""
    files = [folder / name / f"{name}.inter{ending}" for ending in ("", ".gz")]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise SystemExit(f"there is no {files[0]}, nor a .gz of it")
    log = pd.read_csv(file, sep="\t").rename(columns=lambda column: column.split(":")[0])
    return log[COLUMNS].sort_values(["user_id", "timestamp"], kind="stable", ignore_index=True)


def with_moments(log: pd.DataFrame, stay: float, seed: int) -> pd.DataFrame:
    """The log in the order of simulated moments from 0 to 1."""
    user, _ = pd.factorize(log["user_id"])
    arrival = np.random.default_rng(seed).random(user.max() + 1) * (1 - stay)
    share = log.groupby("user_id").cumcount() / log.groupby("user_id")["item_id"].transform("size")
    moments = arrival[user] + stay * share
    return log.assign(timestamp=moments).sort_values("timestamp", kind="stable", ignore_index=True)


def ndcg(checkpoint: Path, log: pd.DataFrame, users: set[Any]) -> float:
    """NDCG@10 of the last item of some users after those before, among all that they have not seen."""
    histories = log[log["user_id"].isin(users)].groupby("user_id", sort=False)["item_id"].agg(list).to_dict()
    targets = {user: items[-1] for user, items in histories.items()}
    earlier = {user: items[:-1] for user, items in histories.items()}
    return load(checkpoint, device="cpu").evaluate(earlier, targets, filter_viewed=True)["ndcg@10"]


def users_of(log: pd.DataFrame) -> set[Any]:
    """Users with items enough to be ranked."""
    sizes = log["user_id"].value_counts()
    return set(sizes[sizes >= LEAST].index)


class Days:
    """The logs of all days, and the runs on them in ``work``."""

    def __init__(self, options: argparse.Namespace, flags: list[str]) -> None:
        log = with_moments(read_log(options.data_path, options.dataset), options.stay, options.seed)
        sizes = np.linspace(options.begin, 1.0, options.days + 1) * len(log)
        self.logs = [log.iloc[: round(size)] for size in sizes]
        grown = set(log.iloc[len(self.logs[0]) :]["user_id"])
        self.old = users_of(self.logs[0]) - grown
        self._work, self._ends = options.work.resolve(), time.monotonic() + 60 * options.minutes
        self._model, self._flags = options.model, flags
        self._shared = {"data_path": str(self._work / "data"), "exact_time": True, "exclude_seen": True}
        self._shared |= {"seed": options.seed, "valid_metric": "NDCG@10"}
        for day, rows in enumerate(self.logs):
            write_inter(self._work / "data" / f"day-{day}" / f"day-{day}.inter", *(rows[name] for name in COLUMNS))

    def train(self, day: int, kind: str, given: dict[str, Any]) -> tuple[dict[str, Any], Path] | None:
        """Record and checkpoint of a run on a day's log; None where there is no time left to begin it."""
        name = f"{kind}-{day}"
        if time.monotonic() > self._ends and not list((self._work / name).glob("*.json")):
            return None
        given = {**self._shared, "dataset": f"day-{day}", **given}
        record = run_options(self._work, name, given, self._model, *self._flags)
        return record, self._work / name / record["checkpoint"]

    def row(self, day: int, runs: dict[str, tuple[dict[str, Any], Path]], first: Path) -> dict[str, Any]:
        """A line of the table."""
        log, files = self.logs[day], {kind: file for kind, (_, file) in runs.items()} | {"day 0": first}
        began = runs["warm"][0].get("warm_start", {"new": 0})
        row: dict[str, Any] = {"day": day, "interactions": len(log), "users": log["user_id"].nunique()}
        row |= {"items": log["item_id"].nunique(), "new items": began["new"]}
        ranked = users_of(log)
        row |= {f"{kind}": f"{ndcg(file, log, ranked):.4f}" for kind, file in files.items()}
        row |= {f"{kind}, old users": f"{ndcg(file, log, self.old):.4f}" for kind, file in files.items()}
        return row | {f"{kind}, s": f"{record['seconds']['train']:.0f}" for kind, (record, _) in runs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", type=Path, required=True, help="folder that holds NAME/NAME.inter or .inter.gz")
    parser.add_argument("--dataset", default="ml-1m")
    parser.add_argument("--model", default="BERT4RecPlus")
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=20, help="of a training anew")
    parser.add_argument("--warm_epochs", type=int, default=3, help="of a training that begins warm")
    parser.add_argument("--begin", type=float, default=0.8, help="share of the interactions on day 0")
    parser.add_argument("--stay", type=float, default=0.3, help="share of the whole time that a user stays")
    parser.add_argument("--seed", type=int, default=2020)
    parser.add_argument("--minutes", type=float, default=600, help="no run begins after so many")
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    options, flags = parser.parse_known_args()
    suppress_dependency_warnings()
    sys.argv = sys.argv[:1]  # RecBole reads options from there
    days, rows = Days(options, flags), []
    begun = days.train(0, "anew", {"epochs": options.epochs})
    if begun is None:
        raise SystemExit("there is no time for the first run; give more --minutes")
    rows.append(days.row(0, {"anew": begun, "warm": begun}, begun[1]))
    last = begun
    for day in range(1, options.days + 1):
        warm = days.train(day, "warm", {"epochs": options.warm_epochs, "warm_start": str(last[1])})
        anew = days.train(day, "anew", {"epochs": options.epochs})
        if warm is None or anew is None:
            print(f"ended before day {day} was over; the same command goes on", file=sys.stderr)
            break
        rows.append(days.row(day, {"anew": anew, "warm": warm}, begun[1]))
        last = warm
    note = (
        f"{options.model}, {options.epochs} epochs anew and {options.warm_epochs} warm; NDCG@10, full ranking, seen "
        f"items left out, seed {options.seed}. A user stays for {options.stay:.0%} of the time. {len(days.old):,} old "
        "users. Seconds of training and validation. On day 0 both are the same run."
    )
    write_tables(f"growing_log_{options.dataset}", machine(begun[0]), rows, note)


if __name__ == "__main__":
    main()
