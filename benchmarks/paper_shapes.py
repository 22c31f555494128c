"""The paper's recipes for Steam and ML-20M on made logs of the same shape, and what a whole run would take.

The two data sets may not be passed on. So users, items, interactions and lengths are the paper's (Table 1), and who
took what is drawn. Each recipe runs from the log to the test and trains for ``--budget``; its epochs are reckoned from
that.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from records import ROOT, machine, run_options, write_inter, write_tables


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


def options_of(name: str) -> dict[str, Any]:
    """Return the recipe's options, with the paper's protocol."""
    files = (f"recipe/paper-{name}.yaml", "recipe/protocol-paper.yaml")
    texts = ((ROOT / "properties" / file).read_text("utf-8") for file in files)
    return {key: value for text in texts for key, value in yaml.safe_load(text).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="10m", help="of training, for each recipe (default: %(default)s)")
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
        given = {**options_of(name), "dataset": name, "data_path": str(log.parent.parent)}
        record = run_options(work, f"{name}-{arguments.scale:g}", given, "BERT4Rec", f"--budget={arguments.budget}")
        trained = len(record["epochs"]) - 1 + record["budget"]["last_epoch_share"]
        epoch = sum(row["train_seconds"] for row in record["epochs"]) / trained
        valid = record["epochs"][-1]["valid_seconds"]
        epochs, every = given["epochs"], given["eval_step"]
        rows.append(
            {
                "recipe": f"paper-{name}.yaml",
                "users": f"{users:,}",
                "items": f"{shape.items:,}",
                "interactions": f"{interactions:,}",
                "loading, s": f"{record['seconds']['load']:.0f}",
                "epoch, min": f"{epoch / 60:.1f}",
                "validation, s": f"{valid:.0f}",
                "test, s": f"{record['seconds']['total'] - record['seconds']['train'] - record['seconds']['load']:.0f}",
                "memory, GB": f"{record['peak_memory_mb'] / 1000:.1f}",
                "whole recipe, h": f"{(epochs * epoch + epochs / every * valid) / 3600:.0f}",
            }
        )
    note = "Of an epoch as much was trained as the budget allows; the whole recipe is reckoned from it."
    write_tables("paper_shapes", machine(record), rows, note)


if __name__ == "__main__":
    main()
