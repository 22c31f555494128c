"""The BERT4Rec paper's Table 2 on ml-1m or beauty: nine systems, each with the best of a few settings by validation.

Every system but POP has four settings (``GRIDS``), each of which trains for ``--trial`` at most. The best by validation
trains for ``--budget`` at most, or until early stopping ends it; BERT4Rec and SASRec do so with three seeds. Each is
tested once: among the paper's 100 candidates, and in the full ranking with seen items left out. All of it takes one
thread, so the two data sets can run side by side on two cores: a system then has 40 minutes of one core, as much as 20
of two.

Searches and runs that have ended stay in ``results/table-2-DATASET``, and are committed. The same command goes on from
there, on another machine, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import yaml
from paper import TABLE_2
from records import RESULTS, ROOT, machines, run_records, write_tables

matplotlib.use("Agg")
from matplotlib import pyplot as plt

GRIDS: dict[str, dict[str, list[Any]]] = {
    "BERT4Rec": {"mask_ratio": [0.2, 0.4], "hidden_dropout_prob": [0.2, 0.4]},
    "Pop": {},
    "BPR": {"learning_rate": [0.001, 0.003], "embedding_size": [64, 128]},
    "NeuMF": {"learning_rate": [0.0005, 0.001], "dropout_prob": [0.1, 0.3]},
    "FPMC": {"learning_rate": [0.001, 0.003], "embedding_size": [64, 128]},
    "GRU4Rec": {"learning_rate": [0.001, 0.003], "dropout_prob": [0.1, 0.3]},
    "GRU4RecPlus": {"learning_rate": [0.001, 0.003], "loss_type": ["BPR-max", "CE"]},
    "Caser": {
        "MAX_ITEM_LIST_LENGTH": [5],
        "train_batch_size": [512],
        "learning_rate": [0.001, 0.003],
        "loss_type": ["BPR", "CE"],
    },
    "SASRec": {"learning_rate": [0.001, 0.002], "hidden_dropout_prob": [0.2, 0.5]},
}
SEVERAL = ["BERT4Rec", "SASRec"]
"""Trained with three seeds."""
FULL = "protocol-full-unseen.yaml"
_SOFTMAX = (
    "RecBole's learns a softmax over all items at every position of whole histories. The paper's code compares a label "
    "with the other labels of its batch."
)
_DRAWN = (
    "a softmax over the labels of the batch and 2,048 drawn items, at every position of whole histories, by Adam. The "
    "paper took its authors' code, with settings that it does not name. Items are drawn by popularity, as the 100 "
    "candidates are; in the full ranking it is behind SASRec and BERT4Rec."
)
WHY: dict[str, dict[str, str]] = {
    "ml-1m": {
        "BPR": "probably for lack of an ℓ2 term, which the paper searches and RecBole's BPR has not. Early stopping "
        "ended it.",
        "NeuMF": "nearly as good as BPR here. The paper's is far below its BPR-MF; how it was trained is not said.",
        "GRU4Rec": _SOFTMAX,
        "GRU4RecPlus": _DRAWN,
    },
    "beauty": {
        "Pop": "items are counted in the training part alone. With the held-out targets counted HR@10 is .0668, 12 % "
        "below the paper's (results/beauty.md).",
        "BPR": "just so. H 128 was better than 64, and the last epoch was the best.",
        "NeuMF": "cut by the budget: the last of its 29 epochs was the best.",
        "GRU4Rec": f"{_SOFTMAX} The budget allowed it 7 epochs, the last of which was the best.",
        "GRU4RecPlus": _DRAWN,
        "Caser": "cut by the budget: RecBole's makes a row of every prefix, of which six epochs fit into it.",
    },
}
"""Why a system is far from the paper's figure, as far as one can say, by data set."""


def run(arguments: list[str], work: Path, log: str) -> None:
    """Run one of our programs in ``work`` with one thread; its output goes to ``log``."""
    print(" ".join(arguments), flush=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with open(work / log, "w") as file:
        command = [sys.executable, *arguments]
        subprocess.run(command, cwd=work, stdout=file, stderr=file, check=True, env=environment)


def best_options(model: str, shared: list[str], trial: str, work: Path) -> Path:
    """Search the grid of a model; return the file with its best options."""
    best = work / f"{model}.best.yaml"
    if not best.exists():
        space = work / f"{model}.yaml"
        space.write_text(yaml.safe_dump({"choice": GRIDS[model]}))
        searched = [f"--params_file={space.name}", f"--output_file={model}.result", f"--budget={trial}"]
        resume = ["--resume"] if (work / f"{model}.jsonl").exists() else []
        run([str(ROOT / "run_hyper.py"), f"--model={model}", *shared, *searched, *resume], work, f"{model}.log")
    return best


def searched_seconds(model: str, work: Path) -> float:
    """Return how long the trials of a model took; none for POP, which has no setting."""
    trials = work / f"{model}.jsonl"
    lines = trials.read_text().splitlines() if trials.exists() else []
    return sum(float(json.loads(line).get("seconds", 0)) for line in lines)


def table_of(dataset: str, records: list[dict[str, Any]], work: Path) -> pd.DataFrame:
    """Return a row for each system: the paper's figures, ours, the full ranking, and what each took."""
    rows = []
    for model, paper in TABLE_2[dataset].items():
        tested = [record for record in records if record["model"] == model]
        mean = pd.DataFrame([record["test_result"] for record in tested]).mean()
        full = pd.DataFrame([record["also"][FULL] for record in tested]).mean()
        row: dict[str, Any] = {"system": model, "seeds": len(tested)}
        row |= {f"paper {name}": figure for name, figure in paper.items()}
        row |= {"HR@10": mean["hit@10"], "NDCG@10": mean["ndcg@10"], "MRR": mean["mrr@101"]}
        row |= {"NDCG@10 to the paper's": mean["ndcg@10"] / paper["NDCG@10"]}
        row |= {"full HR@10": full["hit@10"], "full NDCG@10": full["ndcg@10"]}
        minutes = sum(record["seconds"]["train"] for record in tested) / len(tested) / 60
        epochs = sum(len(record["epochs"]) for record in tested) / len(tested)
        row |= {"search, min": f"{searched_seconds(model, work) / 60:.0f}", "training, min": f"{minutes:.0f}"}
        rows.append({**row, "epochs": f"{epochs:.0f}"})
    return pd.DataFrame(rows)


def other_grids(work: Path) -> list[str]:
    """Say which systems were searched over another grid than they would be today."""
    lines = []
    for model, grid in GRIDS.items():
        space = work / f"{model}.yaml"
        searched = yaml.safe_load(space.read_text())["choice"] if space.exists() else grid
        if searched != grid:
            lines += [f"{model} was searched over {searched}, before its grid became {grid}.", ""]
    return lines


def notes_of(dataset: str, table: pd.DataFrame, work: Path) -> str:
    """Return how the order of the systems compares, and why a system is 15 % or more from the paper."""
    order = table["paper NDCG@10"].corr(table["NDCG@10"], method="spearman")
    far = table.loc[(table["NDCG@10 to the paper's"] - 1).abs().round(4) >= 0.15, "system"]
    lines = [
        "HR@10, NDCG@10 and MRR are among the paper's 100 candidates, by which the best epoch and setting were chosen, "
        "too; MRR is over all 101. The full ranking leaves out seen items, with the same weights.",
        "",
        f"The order of the systems by NDCG@10 against the paper's: Spearman's rank correlation {order:.2f}.",
        "",
        *other_grids(work),
        "15 % or more from the paper:",
        "",
        *(f"- {system}: {WHY[dataset].get(system, 'not explained')}" for system in far),
        "",
        f"![Table 2 of the paper, and here](table_2_{dataset}.png)",
        "",
        f"BERT4RecPlus, which the paper does not have, under this protocol: [{dataset}](../../results/{dataset}.md).",
    ]
    return "\n".join(lines)


def plot(dataset: str, table: pd.DataFrame) -> None:
    """NDCG@10 of each system, the paper's and ours."""
    figure, axes = plt.subplots(figsize=(6.5, 4.5))
    places = np.arange(len(table))
    axes.barh(places - 0.2, table["paper NDCG@10"], 0.38, color="#b0b0b0", label="the paper")
    axes.barh(places + 0.2, table["NDCG@10"], 0.38, color="#0072b2", label="here")
    axes.set_yticks(places, labels=table["system"])
    axes.invert_yaxis()
    axes.set(xlabel="test NDCG@10 among the paper's 100 candidates", title=f"Table 2, {dataset}")
    axes.legend()
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    figure.tight_layout()
    figure.savefig(RESULTS / f"table_2_{dataset}.png", dpi=150)


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of what all of the paper's tables take: the data set and its folder."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", choices=list(TABLE_2), required=True)
    parser.add_argument("--data_path", type=Path, required=True, help="folder that holds DATASET/DATASET.inter")
    return parser


def folder_of(options: argparse.Namespace) -> Path:
    """Return the folder of a data set's searches, where ``dataset`` leads to the data.

    What is committed must not name a folder of this machine.
    """
    work: Path = ROOT / "results" / f"table-2-{options.dataset}"
    work.mkdir(exist_ok=True)
    data = work / "dataset"
    data.unlink(missing_ok=True)
    data.symlink_to(options.data_path.resolve())
    return work


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--trial", default="300s", help="for each setting (default: %(default)s)")
    parser.add_argument("--budget", default="20m", help="for each system's final training (default: %(default)s)")
    options = parser.parse_args()
    work = folder_of(options)
    shared = [f"--dataset={options.dataset}", "--data_path=dataset", "--training_rows=user"]
    shared += ["--show_progress=False", "--stopping_step=20"]
    searched = [*shared, "--config_files=protocol-paper.yaml", "--epochs=1000"]
    files = [best_options(model, searched, options.trial, work) for model, grid in GRIDS.items() if grid]
    files_flag = "--config_files=" + " ".join(["protocol-paper.yaml", *(file.name for file in files)])
    compared = [*shared, files_flag, f"--also_test={FULL}", f"--budget={options.budget}", "--output_dir=compared"]
    records: dict[str, dict[str, Any]] = {}
    for models, seeds in ((SEVERAL, 3), (list(GRIDS), 1)):
        named = f"--model={','.join(models)}"
        run([str(ROOT / "run.py"), named, *compared, f"--seeds={seeds}"], work, f"compared-{seeds}.log")
        records |= run_records(work / "compared")
    table = table_of(options.dataset, list(records.values()), work)
    plot(options.dataset, table)
    rows = [
        {str(name): f"{value:.4f}" if isinstance(value, float) else value for name, value in row.items()}
        for row in table.to_dict("records")
    ]
    where = machines(list(records.values()))
    write_tables(f"table_2_{options.dataset}", where, rows, notes_of(options.dataset, table, work))


if __name__ == "__main__":
    main()
