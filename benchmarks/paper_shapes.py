"""The paper's recipes for Steam and ML-20M, and our defaults, on made logs of the same shape: what a run would take.

The two data sets may not be passed on. So users, items, interactions and lengths are the paper's (Table 1), and who
took what is drawn. Each run goes from the log to the test and trains for ``--budget``; its epochs are reckoned from
that.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from records import ROOT, machine, run_options, write_inter, write_tables

from recbole_bert4rec.comparison.results import epochs_trained


class Shape(NamedTuple):
    """Users, items and interactions, and the fewest that a user has."""

    users: int
    items: int
    interactions: int
    fewest: int


SHAPES = {"steam": Shape(281_428, 13_044, 3_489_707, 5), "ml-20m": Shape(138_493, 26_744, 20_000_263, 20)}
"""Table 1 of the paper: 12.4 and 144.4 interactions a user."""


def write_log(path: Path, shape: Shape, seed: int = 0) -> None:
    """Write a log: lengths log-normal above the fewest, items by a power law, a user's times in order."""
    draw = np.random.default_rng(seed)
    share = draw.lognormal(0, 1, shape.users)
    more = draw.multinomial(shape.interactions - shape.users * shape.fewest, share / share.sum())
    users = np.repeat(np.arange(shape.users), more + shape.fewest)
    popularity = 1 / np.arange(1, shape.items + 1) ** 0.8
    items = draw.choice(shape.items, len(users), p=popularity / popularity.sum())
    write_inter(path, users, items, np.arange(len(users)) - np.searchsorted(users, users))


def options_of(*recipes: str) -> dict[str, Any]:
    """Return the options of recipes; later ones win."""
    texts = ((ROOT / "properties" / "recipe" / recipe).read_text("utf-8") for recipe in recipes)
    return {key: value for text in texts for key, value in yaml.safe_load(text).items()}


def row_of(training: str, shape: Shape, record: dict[str, Any]) -> dict[str, str]:
    """Return what a run took, and the whole of it as reckoned from that."""
    config, seconds, last = record["config"], record["seconds"], record["epochs"][-1]
    trained = epochs_trained(record)
    epoch = sum(row["train_seconds"] for row in record["epochs"]) / trained
    whole = config["epochs"] * (epoch + last["valid_seconds"] / config["eval_step"])
    return {
        "training": training,
        "users": f"{shape.users:,}",
        "items": f"{shape.items:,}",
        "interactions": f"{shape.interactions:,}",
        "loading, s": f"{seconds['load']:.0f}",
        "epochs trained": f"{trained:.2f}",
        "epoch, min": f"{epoch / 60:.1f}",
        "validation, s": f"{last['valid_seconds']:.0f}",
        "test, s": f"{seconds['total'] - seconds['train'] - seconds['load']:.0f}",
        "memory, GB": f"{record['peak_memory_mb'] / 1000:.1f}",
        "epochs": f"{config['epochs']}",
        "all of it, h": f"{whole / 3600:.1f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="5m", help="of training, for each run (default: %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of users and interactions (default: 1)")
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    arguments = parser.parse_args()
    work, rows = arguments.work.resolve(), []
    for name, whole in SHAPES.items():
        users, interactions = int(whole.users * arguments.scale), int(whole.interactions * arguments.scale)
        shape = whole._replace(users=users, interactions=interactions)
        log = work / f"data-{arguments.scale:g}" / name / f"{name}.inter"
        if not log.is_file():
            write_log(log, shape)
        for training, recipes in (("the paper's", [f"paper-{name}.yaml"]), ("ours", [])):
            given = {**options_of(*recipes, "protocol-paper.yaml"), "dataset": name}
            given["data_path"] = str(log.parent.parent)
            folder = f"{name}-{arguments.scale:g}-{'paper' if recipes else 'ours'}"
            record = run_options(work, folder, given, "BERT4Rec", f"--budget={arguments.budget}")
            rows.append({"log": f"like {name}", **row_of(training, shape, record)})
    note = (
        f"Each run trained for {arguments.budget}. All of it, with a validation every `eval_step` epochs, is reckoned "
        "from that. Who took what is drawn, so quality says nothing."
    )
    write_tables("paper_shapes", machine(record), rows, note)


if __name__ == "__main__":
    main()
