"""Train this package's models and RecBole's by their defaults, on six logs with several seeds, and write the results.

The best epoch of each run by validation NDCG@10, seen items left out, is tested under that protocol, RecBole's, and the
paper's. Runs go one thread each, two side by side. Results are in ``results/leaderboard/SET.json``, in the form of the
public RecBoard leaderboard; what is there is not made again, so a stopped call goes on where it was. ``--minutes=0``
trains nothing, and writes the page.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import matplotlib
from records import RESULTS, machines, run_options, table_lines, with_deviation

from recbole_bert4rec.system.files import atomic_write

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BOARD = RESULTS / "leaderboard"
SETS = ("ml-100k", "ml-1m", "beauty-5core", "toys-5core", "beauty", "lastfm")
GLOBAL_TIME = "ml-100k, global time"
PROTOCOLS = {
    "test": "seen items left out",
    "protocol-recbole.yaml": "RecBole's protocol",
    "protocol-paper.yaml": "the paper's 100 candidates",
}
"""Under which the metrics of each stand in a record."""
_PROTOCOL = """\
Defaults alone, the number of epochs and early stopping among them; one thread a run, two runs side by side. The best
epoch by validation NDCG@10, seen items left out, is tested under each protocol. The last item of a user is the test,
the one before it the validation, which is not trained; in global time the test is the last item of everybody who is
active in the last tenth of the log. RecBole's SASRec and GRU4Rec are trained on whole histories
(`training_rows: user`), of the last 50 items, RecBole's default, and of 200, ours. Transitions counts what followed
what, and trains nothing. All metrics and seeds are in `leaderboard/`, in the form of the public RecBoard."""
_RECBOLE = {"training_rows": "user"}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "BERT4RecPlus": ("BERT4RecPlus", {}),
    "SASRecPlus": ("SASRecPlus", {}),
    "BERT4Rec": ("BERT4Rec", {}),
    "RecBole's SASRec, N 50": ("SASRec", {**_RECBOLE, "MAX_ITEM_LIST_LENGTH": 50}),
    "RecBole's SASRec, N 200": ("SASRec", {**_RECBOLE, "MAX_ITEM_LIST_LENGTH": 200}),
    "RecBole's GRU4Rec, N 50": ("GRU4Rec", {**_RECBOLE, "MAX_ITEM_LIST_LENGTH": 50}),
    "RecBole's GRU4Rec, N 200": ("GRU4Rec", {**_RECBOLE, "MAX_ITEM_LIST_LENGTH": 200}),
    "RecBole's Pop": ("Pop", {}),
    "Transitions": ("Transitions", {}),
}
"""Model and options of each row."""
PCTM = {"beauty-5core": ".0635", "toys-5core": ".0738"}
"""NDCG@10 of PCTM, which counts validation items, by its authors (Petrov et al., RecSys 2026)."""
REFIT = "train+valid"
"""Split in the JSON: the test of a BERT4RecPlus that was trained again, with the validation items."""
PUBLISHED = {
    "ml-1m": (
        "HSTU-large, which knows when the test rating was made: .2164 ([RecTools]); WEARec .1904 by WEARec's README "
        "([pswrec2k26]); SASRec .1858 ([Time to Split])",
        ".1561 ([Time to Split])",
    ),
    "beauty-5core": ("BSARec .0610 ± .0005 ([RecBoard]); SASRec .0588 ([Time to Split])", ".0406 ± .0006 ([RecBoard])"),
    "toys-5core": ("BSARec .0663 ± .0011 ([RecBoard])", ".0404 ([RecBoard])"),
    "beauty": ("SASRec .0327 ([antklen])", ".0187 ([antklen])"),
    "lastfm": ("WEARec .0556 with 200 items, by WEARec's README; .0440 with 50 in a rerun ([pswrec2k26])", "not found"),
}
"""The best figures of others, and those of their BERT4Rec, by data set."""
SOURCES = {
    "RecTools": "https://github.com/MTSWebServices/RecTools/blob/main/examples/tutorials/transformers_HSTU_tutorial.ipynb",
    "Time to Split": "https://github.com/monkey0head/time-to-split",
    "RecBoard": "https://github.com/MTandHJ/RecBoard",
    "antklen": "https://github.com/antklen/sasrec-bert4rec-recsys23",
    "pswrec2k26": "https://github.com/kanishkaRandunu/pswrec2k26",
}
_NOT_A_NAME = re.compile(r"[^\w-]+")
_METRICS = {"hit": "HITRATE", "ndcg": "NDCG", "mrr": "MRR"}


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        board: data set, or data set and split.
        label: row of the table.
        seed: of the run.
    """

    board: str
    label: str
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        return _NOT_A_NAME.sub("-", f"{self.board}-{self.label}-{self.seed}")

    def train(self, work: Path, data_path: Path) -> dict[str, Any]:
        """Train and test it, and return its entry."""
        model, options = MODELS[self.label]
        dataset = self.board.partition(",")[0]
        protocol = "protocol-global-time.yaml" if self.board == GLOBAL_TIME else "protocol-full-unseen.yaml"
        also = [] if self.board == GLOBAL_TIME else [f"--protocols={' '.join(list(PROTOCOLS)[1:])}"]
        also += [f"--refit={REFIT}"] if self.label == "BERT4RecPlus" and self.board in PCTM else []
        base = {"dataset": dataset, "data_path": str(data_path.resolve()), "seed": self.seed}
        flags = [f"--config_files=options.yaml {protocol}", *also]
        record = run_options(work, self.name, {**base, **options}, model, *flags)
        tested = {"test": record["test_result"], **record.get("also", {})}
        if "refit" in record:
            tested[REFIT] = record["refit"]["test_result"]
        shutil.rmtree(work / self.name)  # weights are large
        return {
            "id": self.name,
            "params": {"config": protocol, "seed": self.seed, **options},
            "metrics": {
                "train": {"LOSS": record["epochs"][-1]["train_loss"] if record["epochs"] else None},
                "valid": named(record["best_valid_result"]),
                **{split: named(metrics) for split, metrics in tested.items()},
            },
            "epochs": len(record["epochs"]),
            "best_epoch": record["best_epoch"],
            "seconds": round(record["seconds"]["total"]),
            "ended": record["ended"],
            "commit": record["commit"],
            "versions": record["versions"],
            "machine": record["machine"],
        }


def named(metrics: dict[str, float]) -> dict[str, float]:
    """Return metrics with RecBoard's names, such as ``NDCG@10``."""
    parts = {tuple(name.split("@")): value for name, value in metrics.items()}
    return {f"{_METRICS[kind]}@{k}": value for (kind, k), value in parts.items() if kind in _METRICS}


class Board:
    """Entries of all runs on a data set, in its file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = BOARD / f"{_NOT_A_NAME.sub('-', name)}.json"
        models = json.loads(self.path.read_text()) if self.path.exists() else []
        self.models: dict[str, dict[str, Any]] = {model["description"]: model for model in models}

    def runs(self, label: str) -> list[dict[str, Any]]:
        """Return the runs of a row, by their seeds."""
        runs: list[dict[str, Any]] = self.models[label]["runs"] if label in self.models else []
        return sorted(runs, key=lambda run: run["params"]["seed"])

    def has(self, run: Run) -> bool:
        """Whether it was made."""
        return any(made["params"]["seed"] == run.seed for made in self.runs(run.label))

    def add(self, run: Run, entry: dict[str, Any]) -> None:
        """Write a run into the file."""
        runs = [*self.runs(run.label), entry]
        model = {"description": run.label, "dataset": self.name, "tags": [MODELS[run.label][0]], "runs": runs}
        self.models[run.label] = model
        BOARD.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path) as part:
            rows = [self.models[label] for label in MODELS if label in self.models]
            part.write_text(json.dumps(rows, indent=1) + "\n")


def scores(board: Board, label: str, split: str) -> list[float]:
    """Return NDCG@10 of all seeds of a row."""
    return [run["metrics"][split]["NDCG@10"] for run in board.runs(label) if split in run["metrics"]]


def scored(board: Board, label: str, split: str) -> str:
    """Return the mean NDCG@10 of a row, its deviation and the number of seeds, such as ``.0619 ± .0008 (3)``."""
    values = scores(board, label, split)
    return f"{with_deviation(values)} ({len(values)})" if values else ""


def table(boards: list[Board], cell: Callable[[Board, str], str]) -> list[str]:
    """Return the lines of a table of the models and data sets that have a cell."""
    columns = {board.name: {label: cell(board, label) for label in MODELS} for board in boards}
    filled = {name: column for name, column in columns.items() if any(column.values())}
    rows = [{"model": label, **{name: column[label] for name, column in filled.items()}} for label in MODELS]
    made = [row for row in rows if any(list(row.values())[1:])]
    return [*table_lines(made), ""] if made else []


def page(boards: list[Board]) -> str:
    """Return the page: a table for each protocol, and one of seconds."""
    runs = [run for board in boards for label in MODELS for run in board.runs(label)]
    lines = ["# Leaderboard", "", "`python benchmarks/leaderboard.py --data_path DATA`", "", _PROTOCOL, ""]
    commits = sorted({run["commit"][:7] for run in runs})
    lines += [f"Machines: {machines(runs)}. Commits: {', '.join(commits)}; each run's is in its file.", ""]
    lines += [
        "Cells are mean and deviation over the seeds, 2020 and on; their number is in brackets. A gap was not run.",
        "",
    ]
    lines += ["![NDCG@10, seen items left out](leaderboard.png)", ""]
    for split, title in PROTOCOLS.items():
        lines += [f"## NDCG@10, {title}", "", *table(boards, partial(scored, split=split))]
    lines += [
        "## NDCG@10 beside published figures",
        "",
        "All items ranked, seen items left out, validation items not trained. Figures made on files that sort rows "
        "of one time by item are not listed ([why](../../docs/evaluation.md#which-item-is-the-last)).",
        "",
        *table_lines([beside_published(board) for board in boards if board.name in PUBLISHED]),
        "",
    ]
    lines += [
        "## NDCG@10 with the validation items trained, too",
        "",
        "Papers that count or train them compare with others' strict figures. By `--refit=train+valid` ours are "
        "chosen by validation, and then trained and counted again with the validation items. PCTM's are its authors' "
        "([why they differ](../../docs/evaluation.md#is-the-item-before-the-test-trained)).",
        "",
        *table_lines([with_validation_items(board) for board in boards if board.name in PCTM]),
        "",
    ]
    lines += ["## Minutes of a run, and its epochs", "", *table(boards, spent)]
    lines += ["Machines and what ran beside differ. Refits of BERT4RecPlus are in its minutes.", ""]
    total = sum(run["seconds"] for run in runs) / 3600
    lines += [f"{len(runs)} runs, {total:.1f} hours of one thread.", ""]
    lines += [f"[{name}]: {address}" for name, address in SOURCES.items()]
    return "\n".join(lines) + "\n"


def beside_published(board: Board) -> dict[str, str]:
    """Return the row of a data set that others have published figures of."""
    others, bert4rec = PUBLISHED[board.name]
    ours = {label: scored(board, label, "test") for label in ("BERT4RecPlus", "BERT4Rec")}
    return {"log": board.name, **ours, "best of others": others, "BERT4Rec of others": bert4rec}


def with_validation_items(board: Board) -> dict[str, str]:
    """Return the row of a data set whose validation items others have counted."""
    splits = {"strict": "test", "with the validation items": REFIT}
    ours = {f"BERT4RecPlus, {name}": scored(board, "BERT4RecPlus", split) for name, split in splits.items()}
    return {"log": board.name, **ours, "PCTM, with the validation items": PCTM[board.name]}


def spent(board: Board, label: str) -> str:
    """Return the mean minutes and epochs of a row's runs."""
    runs = board.runs(label)
    if not runs:
        return ""
    minutes, epochs = (statistics.mean(run[key] for run in runs) for key in ("seconds", "epochs"))
    return f"{minutes / 60:.1f}, {epochs:.0f}"


def draw(boards: list[Board], path: Path) -> None:
    """Draw NDCG@10 of all models on each data set, seen items left out."""
    figure, axes = plt.subplots(1, len(boards), figsize=(2.6 * len(boards), 3.2), sharey=True)
    labels = list(MODELS)[::-1]
    for axis, board in zip(axes, boards, strict=True):
        for row, label in enumerate(labels):
            values = scores(board, label, "test")
            colour = "tab:gray" if label.startswith("RecBole") else "tab:blue"
            axis.plot(values, [row] * len(values), "o", color=colour, markersize=4)
        axis.set_title(board.name, fontsize=9)
        axis.set_xlim(left=0)
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(labels)), labels)
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", type=Path, default=Path("dataset"))
    parser.add_argument("--work", type=Path, default=Path("bench-work/leaderboard"))
    parser.add_argument("--sets", nargs="+", choices=(*SETS, GLOBAL_TIME), default=[*SETS, GLOBAL_TIME])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--minutes", type=float, default=math.inf, help="after these no run begins")
    options = parser.parse_args()
    boards = {name: Board(name) for name in (*SETS, GLOBAL_TIME)}
    end, lock = time.monotonic() + 60 * options.minutes, Lock()

    def work_on(run: Run) -> None:
        if time.monotonic() < end:
            entry = run.train(options.work, options.data_path)
            with lock:
                boards[run.board].add(run, entry)

    os.environ["OMP_NUM_THREADS"] = "1"
    wanted = [
        Run(name, label, 2020 + number)
        for number in range(5)
        for name in options.sets
        for label in options.models
        # Transitions draws nothing, so one run tells all
        if number < (1 if label == "Transitions" else 5 if name.startswith("ml-100k") else 3)
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work_on, [run for run in wanted if not boards[run.board].has(run)]))
    (RESULTS / "leaderboard.md").write_text(page(list(boards.values())))
    draw(list(boards.values()), RESULTS / "leaderboard.png")


if __name__ == "__main__":
    main()
