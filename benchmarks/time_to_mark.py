"""Seconds until validation NDCG@10 passes a mark on ml-1m: this package, RecTools and RecBole's models, in turn.

All see the same training items and rank the same held-out items among all that the user has not seen; seconds
count training and validation from the first step. RecTools runs in an environment of its own (see training_speed.py)
with its own defaults, but H 64 and 2 heads; ours with the flags of ``RECIPE``; RecBole's with its defaults, one run of
the same seed for each of ``--budgets``, validated when it ends. What ``--work`` holds is not run again. Run it on an
idle machine.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from records import RESULTS, machine, run_options, write_tables

from recbole_bert4rec.constants import STOCK_MODEL_NAME, TARGET_POSITION
from recbole_bert4rec.environment import suppress_dependency_warnings

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PEERS = Path(__file__).resolve().parent / "peers"
RECTOOLS_CURVE = "rectools_quality.jsonl"
MARKS = (0.05, 0.10, 0.15)
RECIPE = {
    "MAX_ITEM_LIST_LENGTH": 50,
    "position": "start",
    "output_projection": True,
    "loss_type": "CE",
    "train_batch_size": 32,
    "mask_ratio": 0.3,
    "hidden_dropout_prob": 0.05,
    "learning_rate": 0.002,
    "weight_decay": 0.01,
    "seen_bias": True,
    "epochs": 30,
    "eval_step": 2,
}
PAPER_START = {"value_init": "random", "bias_init": "zero", "seen_bias": False}


def write_task(path: Path, data_path: Path) -> None:
    """Training sequences and held-out items of the validation rows."""
    options = {"data_path": str(data_path), "state": "error", "show_progress": False}
    config = Config("BERT4Rec", "ml-1m", config_dict=options)
    _, valid, _ = data_preparation(config, create_dataset(config))
    dataset = valid._dataset
    places = dataset.inter_feat[TARGET_POSITION]
    begins = dataset.sequences.offsets[dataset.sequence_of(dataset.inter_feat)]
    items = dataset.sequences.items.numpy()
    histories = [items[b:e] for b, e in zip(begins.tolist(), places.tolist(), strict=True)]
    lengths = np.array([len(history) for history in histories])
    arrays = {"items": np.concatenate(histories), "lengths": lengths, "targets": items[places.numpy()]}
    np.savez(path, n_items=dataset.item_num - 1, **arrays)


def rectools_curve(work: Path, environments: Path, limit: float) -> tuple[str, list[tuple[float, float]]]:
    """Version, and (second, NDCG@10) after every epoch until ``limit`` seconds are over."""
    task = {"sequences": str(work / "ml-1m-quality.npz"), "length": 100, "hidden_size": 64, "batch": 128}
    task |= {"mask_ratio": 0.15, "epochs": 1000}
    kept, lines = work / RECTOOLS_CURVE, []
    if kept.exists():
        lines = [json.loads(line) for line in kept.read_text().splitlines()]
        return lines[0]["version"], [(line["second"], line["ndcg"]) for line in lines]
    python = environments / "rectools" / "bin" / "python"
    command = [str(python), "-W", "ignore", str(PEERS / "rectools_quality.py"), json.dumps(task)]
    with open(work / "rectools_quality.log", "w") as log:
        process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=log, text=True)
        timer = threading.Timer(limit, process.kill)
        timer.start()
        for line in process.stdout or ():
            if line.startswith("{"):
                lines.append(json.loads(line))
                print(f"RecTools {lines[-1]}", flush=True)
        timer.cancel()
    if process.wait() != -signal.SIGKILL or not lines:
        raise SystemExit(f"RecTools ended by itself; see {log.name}")
    kept.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines[0]["version"], [(line["second"], line["ndcg"]) for line in lines]


def our_curve(record: dict[str, Any]) -> list[tuple[float, float]]:
    """(second, NDCG@10) of every validation of a run."""
    return [(row["at_second"], row["valid"]["ndcg@10"]) for row in record["epochs"] if "valid" in row]


def budgeted_curve(work: Path, model: str, options: dict[str, Any], budgets: list[str]) -> tuple[str, Any, float]:
    """Name of one of RecBole's models, its curve over runs of these budgets, and the epochs of the longest one.

    Its learning rate is constant, so that a shorter run is the beginning of a longer one.
    """
    name = f"{model}-{options['seed']}"
    records = [run_options(work, name, options, model, f"--budget={budget}") for budget in budgets]
    epochs = max(len(record["epochs"]) - 1 + record["budget"]["last_epoch_share"] for record in records)
    curve = sorted(point for record in records for point in our_curve(record))
    return f"RecBole's {'BERT4Rec' if model == STOCK_MODEL_NAME else model}", curve, epochs


def first_at(curve: list[tuple[float, float]], mark: float) -> float | None:
    """The second at which a curve reaches ``mark``."""
    return next((second for second, ndcg in curve if ndcg >= mark), None)


def plot(curves: dict[str, list[tuple[float, float]]]) -> None:
    """Validation NDCG@10 against seconds."""
    figure, axes = plt.subplots(figsize=(6, 4))
    for (name, curve), style in zip(curves.items(), ("o-", "s--", "^:", "D-.", "v-"), strict=True):
        axes.plot(*zip(*curve, strict=True), style, label=name, markersize=4)
    for mark in MARKS:
        axes.axhline(mark, color="grey", linewidth=0.5)
    axes.set(xscale="log", xlabel="seconds of training and validation", ylabel="validation NDCG@10")
    axes.set_title("ml-1m, full ranking, seen items excluded, two cores")
    axes.legend(fontsize=8, loc="center right")
    figure.tight_layout()
    figure.savefig(RESULTS / "time_to_mark.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", type=Path, required=True, help="folder that holds ml-1m/ml-1m.inter.gz")
    parser.add_argument("--environments", type=Path, default=Path("bench-envs"))
    parser.add_argument("--limit", type=float, default=1500, help="seconds for RecTools")
    parser.add_argument("--budgets", nargs="+", default=["150s", "300s", "600s"], help="for RecBole's models")
    parser.add_argument("--seed", type=int, default=2020)
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    options = parser.parse_args()
    suppress_dependency_warnings()
    sys.argv = sys.argv[:1]  # RecBole reads options from there
    work, data_path = options.work.resolve(), options.data_path.resolve()
    recipe = {"seed": options.seed, **RECIPE}
    shared = {"dataset": "ml-1m", "data_path": str(data_path), "exclude_seen": True, "valid_metric": "NDCG@10"}
    ours = run_options(work, f"ours-{options.seed}", {**shared, **recipe})
    plain = run_options(work, f"paper_start-{options.seed}", {**shared, **recipe, **PAPER_START})
    write_task(work / "ml-1m-quality.npz", data_path)
    said = "RecTools' curve is of an earlier call." if (work / RECTOOLS_CURVE).exists() else ""
    version, theirs = rectools_curve(work, options.environments.resolve(), options.limit)
    curves = {"ours": our_curve(ours), "ours, the paper's start": our_curve(plain), f"RecTools {version}": theirs}
    epochs: list[float] = [len(ours["epochs"]), len(plain["epochs"]), len(theirs)]
    for model in ("SASRec", STOCK_MODEL_NAME):
        name, curves[name], passes = budgeted_curve(work, model, {**shared, "seed": options.seed}, options.budgets)
        epochs.append(passes)
    rows: list[dict[str, Any]] = []
    for (name, curve), passes in zip(curves.items(), epochs, strict=True):
        best = max(ndcg for _, ndcg in curve)
        row: dict[str, Any] = {"contestant": name, "epochs": f"{passes:.3g}", "seconds": f"{curve[-1][0]:.0f}"}
        for mark in MARKS:
            second = first_at(curve, mark)
            row[f"to {mark:.2f}, s"] = f"{second:.0f}" if second else f"not in {curve[-1][0]:.0f}"
        rows.append({**row, "best": f"{best:.4f}"})
    given = " ".join(f"--{key}={value}" for key, value in recipe.items())
    note = (
        f"Validation NDCG@10, full ranking, seen items excluded; H 64, 2 layers, 2 heads. Ours: N 50, `{given}`; the "
        f"paper's start: the same with `{' '.join(f'--{k}={v}' for k, v in PAPER_START.items())}`. RecTools: N 100, "
        "batch 128, mask ratio 0.15, its own defaults otherwise. RecBole's: its defaults (N 50, every prefix of every "
        f"user), a run of the same seed for `--budget` {', '.join(options.budgets)}. {said} Chosen on validation; no "
        "test figure was looked at."
    )
    write_tables("time_to_mark", machine(ours), rows, note)
    plot(curves)


if __name__ == "__main__":
    main()
