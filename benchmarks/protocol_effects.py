"""How much of a figure is the protocol's: ml-100k with one thing changed at a time, for docs/faq.md.

What ``--work`` holds is not run again.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from records import command, machine, run_options, table_lines, with_deviation, write_page

from recbole_bert4rec.recommend.answers import metrics_of
from recbole_bert4rec.system.environment import environment

_K = 10
_UNSEEN = "--config_files=protocol-full-unseen.yaml options.yaml"
_SCALED = {"normalize_all": True}  # RecBole's for ml-100k; else seconds are float32, which merges a third of them
_EPOCHS = {"epochs": 12}  # those with a row for each prefix take two minutes and a half
_ALL_BUT_THE_TEST = {"split": {"LS": "test_only"}, "order": "TO", "group_by": "user", "mode": "full"}


class Way(NamedTuple):
    """One way to train and test.

    Attributes:
        label: of its row.
        model: that is trained.
        options: those that differ from the defaults.
        order: of rows in the file, "random" or "item", which decides among those of one time. None: as it is.
        once: whether it is made with the first seed alone.
    """

    label: str
    model: str
    options: dict[str, Any]
    order: str | None = None
    once: bool = False


WAYS = (
    Way("BERT4Rec", "BERT4Rec", {}),
    Way("BERT4Rec; rows of one time are in random order", "BERT4Rec", _SCALED, "random"),
    Way("BERT4Rec; rows of one time are ordered by item", "BERT4Rec", _SCALED, "item"),
    Way("BERT4Rec; seconds are read as float32, and rows are in random order", "BERT4Rec", {}, "random"),
    Way("BERT4Rec; validation items are trained, too", "BERT4Rec", {"eval_args": _ALL_BUT_THE_TEST}),
    Way("RecBole's SASRec; a training row for each prefix", "SASRec", _EPOCHS, once=True),
    Way("RecBole's SASRec; whole histories", "SASRec", {**_EPOCHS, "training_rows": "user"}, once=True),
)


def in_order(log: pd.DataFrame, order: str | None, seed: int) -> pd.DataFrame:
    """Return the rows in an order that :class:`Way` names."""
    if order == "random":
        return log.sample(frac=1, random_state=seed)
    return log if order is None else log.sort_values(log.columns[1], kind="stable")


def tested(way: Way, log: pd.DataFrame, work: Path, seed: int) -> dict[str, float]:
    """Train a way, unless it was, and return its test metrics."""
    name = "ml-100k" if way.order is None else f"ml-100k-{way.order}-{seed}"
    file = work / "data" / name / f"{name}.inter"
    if not file.exists():
        file.parent.mkdir(parents=True)
        in_order(log, way.order, seed).to_csv(file, sep="\t", index=False)
    options = {"dataset": name, "data_path": str((work / "data").resolve()), "seed": seed, **way.options}
    folder = re.sub(r"\W+", "-", way.label)
    metrics: dict[str, float] = run_options(work, f"{folder}-{seed}", options, way.model, _UNSEEN)["test_result"]
    return metrics


def ranks_of_targets(log: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rank last items among those that the user did not have, by counts of training.

    Returns:
        How many items have a higher count, and how many others the same. *Shape:* (users,) each
    """
    log = log.set_axis(["user", "item", "rating", "time"], axis=1).sort_values(["user", "time"], kind="stable")
    from_the_end = log.groupby("user").cumcount(ascending=False).to_numpy()
    users, items = (pd.factorize(log[column])[0] for column in ("user", "item"))
    counts = np.bincount(items[from_the_end > 1], minlength=items.max() + 1)
    is_rival = np.ones((users.max() + 1, len(counts)), bool)
    is_rival[users, items] = False
    of_target = counts[items[from_the_end == 0], None]
    return (is_rival & (counts > of_target)).sum(1), (is_rival & (counts == of_target)).sum(1)


def same_time(log: pd.DataFrame) -> float:
    """Return the share of the users whose last two items have the same time."""
    last_two = [np.sort(times.to_numpy())[-2:] for _, times in log.groupby(log.columns[0])[log.columns[3]]]
    return float(np.mean([earlier == later for earlier, later in last_two]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", type=Path, default=Path("dataset"), help="folder with ml-100k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2020, 2021, 2022])
    parser.add_argument("--work", type=Path, default=Path("bench-work/protocol_effects"))
    options = parser.parse_args()
    log = pd.read_csv(options.data_path / "ml-100k" / "ml-100k.inter", sep="\t", dtype={3: float})
    rows = []
    for way in WAYS:
        seeds = options.seeds[:1] if way.once else options.seeds
        runs = [tested(way, log, options.work, seed) for seed in seeds]
        columns = {
            f"test {name}": with_deviation([run[name.lower()] for run in runs]) for name in ("Hit@10", "NDCG@10")
        }
        rows.append({"ml-100k": way.label, **columns})
    above, equal = ranks_of_targets(log)
    ranks_of = {"first": above + 1.0, "last": above + equal + 1.0}
    ties = {order: with_deviation([metrics_of(ranks, [_K])[f"ndcg@{_K}"]]) for order, ranks in ranks_of.items()}
    lines = [f"`{command()}`", "", f"Machine: {machine(environment())}.", "", *table_lines(rows), ""]
    lines += [
        f"Seen items are left out; seeds {', '.join(map(str, options.seeds))}, the first alone where no deviation "
        f"stands. BERT4Rec is trained for 20 epochs, SASRec for {_EPOCHS['epochs']}, with as many labels in a batch "
        "either way; the best epoch is chosen on validation, where there is one. The last two items of "
        f"{same_time(log):.0%} of the users have the same time: their order is that of the file.",
        "",
        f"Ranked by counts of training, {(equal > 0).mean():.0%} of the targets have a count that others have, too. "
        "NDCG@10 with the target put " + ", ".join(f"{order}: {value}" for order, value in ties.items()) + ".",
    ]
    write_page("protocol_effects", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
