"""Twenty items for each of a million users from two actors of Ray Data on two nodes, one of them killed: nothing lost.

The cluster is Ray's own of two nodes on this machine. A process without Ray answers the same file, and the two tables
are compared row by row. When a third of the parts is answered, the process of one actor gets SIGKILL.
"""

from __future__ import annotations

import argparse
import shutil
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.dataset as ds
from all_users import write_users
from catalogues import Made
from ray.cluster_utils import Cluster
from records import machine, write_tables

from recbole_bert4rec import Recommender
from recbole_bert4rec.logs.interactions import InteractionFile
from recbole_bert4rec.ray.data import on_ray
from recbole_bert4rec.recommend.bulk import Count, Engine, OneAfterAnother, Question, answer_file
from recbole_bert4rec.system.environment import environment

_K, _ACTORS = 20, 2


def model_of(n_items: int) -> Recommender:
    """Return the model that answers; each actor makes its own."""
    return Made(n_items, "loose").model()


def answer(question: Question, output: Path, engine: Engine) -> tuple[Count, float]:
    """Answer all users into a folder; return how many there were, and the seconds."""
    for old in (output, output.with_name(f"{output.name}.parts")):
        shutil.rmtree(old, ignore_errors=True)
    begin = time.perf_counter()
    count = answer_file(question.source, str(output), {}, engine, ["i1"])
    return count, time.perf_counter() - begin


class Killer(threading.Thread):
    """Kills an actor when so many parts are answered; ``killed`` says how many were."""

    def __init__(self, output: Path, parts: int) -> None:
        super().__init__(daemon=True)
        self._answers, self._parts, self.killed = output.with_name(f"{output.name}.parts") / "answers", parts, 0

    def run(self) -> None:
        """Wait for the parts, and kill."""
        while (answered := len(list(self._answers.glob("*.parquet")))) < self._parts:
            time.sleep(0.05)
        actors = [one for one in psutil.process_iter(["cmdline"]) if "MapWorker" in " ".join(one.info["cmdline"] or ())]
        if len(actors) != _ACTORS:
            raise SystemExit(f"there are {len(actors)} actors, not {_ACTORS}")
        actors[0].kill()
        self.killed = answered


def in_order(folder: Path) -> pa.Table:
    """Read the rows of a folder, by user and rank."""
    return ds.dataset(folder).to_table().sort_by([("user_id", "ascending"), ("rank", "ascending")])


def compare(one: pa.Table, other: pa.Table) -> dict[str, Any]:
    """Say how many rows are there, and how many name another item or lie further than 1e-5 apart in score."""
    same_size = len(one) == len(other) and one["user_id"].equals(other["user_id"]) and one["rank"].equals(other["rank"])
    if not same_size:
        raise SystemExit(f"{len(one):,} and {len(other):,} rows, which are not of the same users and ranks")
    items = [table["item_id"].cast(pa.int64()).to_numpy() for table in (one, other)]
    scores = [table["score"].to_numpy() for table in (one, other)]
    return {
        "rows": f"{len(one):,}",
        "rows with another item": f"{int((items[0] != items[1]).sum()):,}",
        "largest difference of scores": f"{np.abs(scores[0] - scores[1]).max():.1e}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--work", type=Path, default=Path("bench-work/all-users"))
    options = parser.parse_args()
    work = options.work.resolve()
    write_users(Made(options.items, "loose"), options.users, work / f"users-{options.users}")
    model = model_of(options.items)
    source = InteractionFile(str(work / f"users-{options.users}"), model.fields)
    question = Question(source, partial(Recommender.recommend, k=_K))
    _, alone = answer(question, work / "alone", OneAfterAnother(question, model))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        with on_ray(question, partial(model_of, options.items), _ACTORS, cluster.address) as engine:
            killer = Killer(work / "on-ray", source.n_parts // 3)
            killer.start()
            count, seconds = answer(question, work / "on-ray", engine)
    finally:
        cluster.shutdown()
    row = {
        "users": f"{count.users:,}",
        "parts": f"{source.n_parts:,}",
        "answered when an actor was killed": f"{killer.killed:,}",
        **compare(in_order(work / "alone"), in_order(work / "on-ray")),
        "seconds, two actors": f"{seconds:.0f}",
        "seconds, one process": f"{alone:.0f}",
    }
    note = f"{options.items:,} items. The process without Ray may use all cores, each actor one."
    write_tables("all_users_on_ray", machine(environment()), [row], note)


if __name__ == "__main__":
    main()
