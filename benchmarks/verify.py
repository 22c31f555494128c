"""Check README's and the leaderboard's figures against the JSON of results, and README's first run against a new one.

What a page copies (means, deviations, numbers of seeds, epochs) is exact to its last digit. README's first run is made
again: its figures may differ by a standard deviation of the leaderboard's seeds, for other processors round otherwise.
The new run's metrics are computed a second time here, from the ranks of its targets. Ends with 1 and names what is off.
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from leaderboard import GLOBAL_TIME, MODELS, PROTOCOLS, SETS, Board, page, scores
from records import RESULTS, ROOT

from recbole_bert4rec import compare

README = (ROOT / "README.md").read_text("utf-8")
LEADERBOARD = (RESULTS / "leaderboard.md").read_text("utf-8")


def rows_of(text: str, heading: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the name and the cells of each row of the table below a heading."""
    lines = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|"))
    for name, *cells in rows:
        yield name, dict(zip(header[1:], cells, strict=True))


def wrong_cells(text: str, heading: str, of_logs: bool, split: str) -> Iterator[str]:
    """Yield each cell of a table that is not what the JSON says; a cell without a mean of ours is passed over."""
    for name, cells in rows_of(text, heading):
        for column, cell in cells.items():
            log, model = (name, column) if of_logs else (column, name)
            if model not in MODELS:
                continue
            values = scores(Board(log), model, split)
            said = re.fullmatch(r"(\.\d{4})(?: ± (\.\d{4}))?(?: \((\d+)\))?", cell)
            if not values or not said:
                if values or cell:
                    yield f"{heading}: {log}, {model}: {cell or 'nothing'}, but the JSON has {values}"
                continue
            true = [f"{statistics.mean(values):.4f}", f"{statistics.stdev(values):.4f}" if values[1:] else None]
            if [*true, said[3] and str(len(values))] != [said[1] and f"0{said[1]}", said[2] and f"0{said[2]}", said[3]]:
                yield f"{heading}: {log}, {model}: {cell}, but the JSON has {true} of {len(values)} seeds"


def stale_lines() -> Iterator[str]:
    """Yield each line of the leaderboard that its program would write otherwise: minutes, epochs, machines."""
    written = page([Board(name) for name in (*SETS, GLOBAL_TIME)]).splitlines()
    for said, line in zip_longest(LEADERBOARD.splitlines(), written):
        if said != line:
            yield f"leaderboard.md says {said!r}, but the JSON {line!r}"


def wrong_metrics(record: dict[str, Any], ranks: pd.Series) -> Iterator[str]:
    """Yield each test metric of a run that does not follow from the ranks of its targets (0: beyond the 50th)."""
    rank = ranks.to_numpy(float)
    for name, value in record["test_result"].items():
        kind, _, cut = name.partition("@")
        hit = (rank > 0) & (rank <= int(cut))
        gain = {
            "hit": hit,
            "recall": hit,
            "precision": hit / int(cut),
            "mrr": np.where(hit, 1 / np.maximum(rank, 1), 0),
            "ndcg": np.where(hit, 1 / np.log2(np.maximum(rank, 1) + 1), 0),
        }[kind]
        if abs(gain.mean() - value) > 0.000051:  # RecBole rounds to four digits
            yield f"a new run's {name} is {value}, but {gain.mean():.4f} by the ranks of its targets"


def wrong_first_run(record: dict[str, Any]) -> Iterator[str]:
    """Yield each figure of README's first run that is further than a deviation of seeds from a new one."""
    [line] = re.findall(r"^  test +(.*@.*)", README, re.MULTILINE)
    seeds = [run["metrics"]["protocol-recbole.yaml"] for run in Board("ml-100k").runs("BERT4Rec")]
    for name, said in re.findall(r"(\S+@\d+) (\S+)", line):
        kind, _, cut = name.partition("@")
        of_seeds = [run[f"{kind.upper() if kind in ('mrr', 'ndcg') else 'HITRATE'}@{cut}"] for run in seeds]
        deviation = statistics.stdev(of_seeds) / (int(cut) if kind == "precision" else 1)
        if abs(record["test_result"][name] - float(said)) > deviation:
            yield f"README's first run has {name} {said}, a new one {record['test_result'][name]}"


def wrong_speeds() -> Iterator[str]:
    """Yield each number of seconds an epoch in README that is not its page's."""
    [sentence] = re.findall(r"takes\s([\d.]+)\sseconds.*?RePlay\stakes\s(\d+),\s+RecTools\s(\d+)", README, re.DOTALL)
    table = pd.read_csv(RESULTS / "training_speed_ml-1m_100.csv").set_index("contestant")["seconds an epoch"]
    for name, said in zip(("ours", "RePlay", "RecTools"), sentence, strict=True):
        if float(said) != round(float(table[name]), len(said.partition(".")[2])):
            yield f"README has {said} seconds an epoch of {name}, but {table[name]} were measured"


def main() -> None:
    wrong = [*wrong_cells(README, "## Results", True, "test"), *stale_lines(), *wrong_speeds()]
    for split, title in PROTOCOLS.items():
        wrong += wrong_cells(LEADERBOARD, f"## NDCG@10, {title}", False, split)
    wrong += wrong_cells(LEADERBOARD, "## NDCG@10 beside published figures", True, "test")
    with tempfile.TemporaryDirectory() as folder:
        [record] = compare("BERT4Rec", "ml-100k", seeds=1, folder=folder, screen="quiet").records["BERT4Rec"]
        [ranks] = Path(folder, "runs").glob("*.parquet")
        wrong += [*wrong_metrics(record, pd.read_parquet(ranks)["rank"]), *wrong_first_run(record)]
    sys.exit("\n".join(wrong) if wrong else None)


if __name__ == "__main__":
    main()
