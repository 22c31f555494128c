"""Seconds until validation NDCG@10 passes a mark on ml-1m: our models, RecTools' and RecBole's SASRec, in turn.

All see the same training items and rank the same held-out items among all that the user has not seen; seconds count
training and validation from the first step. Ours run with the options of ``OURS``. RecTools runs in an environment of
its own (see training_speed.py) with its own defaults, but H 64 and 2 heads; RecBole's SASRec with its defaults, in one
pass over each user's windows. What ``--work`` holds is not run again. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from records import RESULTS, machine, run_options, write_tables

from recbole_bert4rec.system.constants import TARGET_POSITION
from recbole_bert4rec.system.environment import suppress_dependency_warnings

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PEERS = Path(__file__).resolve().parent / "peers"
MARKS = (0.05, 0.10, 0.15, 0.175)
Curve = list[tuple[float, float]]

_QUICK = {
    "MAX_ITEM_LIST_LENGTH": 60,
    "n_layers": 2,
    "n_heads": 1,
    "inner_size": 128,
    "hidden_dropout_prob": 0.1,
    "loss_type": "sampled_softmax",
    "batch_sequences": 16,
    "learning_rate": 0.004,
    "eval_step": 1,
}
_CLOZE = {"loss_type": "CE", "mask_ratio": 0.3, "hidden_dropout_prob": 0.05, "learning_rate": 0.002, "eval_step": 2}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "SASRecPlus, shortest": ("SASRecPlus", {**_QUICK, "epochs": 3}),
    "SASRecPlus": ("SASRecPlus", {**_QUICK, "epochs": 5}),
    "SASRecPlus, longer": ("SASRecPlus", {**_QUICK, "MAX_ITEM_LIST_LENGTH": 100, "learning_rate": 0.002, "epochs": 10}),
    "BERT4RecPlus": ("BERT4RecPlus", {**_QUICK, "epochs": 5}),
    "BERT4Rec": ("BERT4Rec", {**_QUICK, **_CLOZE, "epochs": 30}),
}
"""Model and options of each of ours."""


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


def rectools_curve(work: Path, environments: Path, architecture: str, limit: float) -> tuple[str, Curve]:
    """Version, and (second, NDCG@10) after every epoch until ``limit`` seconds are over."""
    task = {"sequences": str(work / "ml-1m-quality.npz"), "length": 100, "hidden_size": 64, "batch": 128}
    task |= {"mask_ratio": 0.15, "epochs": 1000, "architecture": architecture}
    kept, lines = work / f"rectools_{architecture}.jsonl", []
    if not kept.exists():
        python = environments / "rectools" / "bin" / "python"
        command = [str(python), "-W", "ignore", str(PEERS / "rectools_quality.py"), json.dumps(task)]
        with open(kept.with_suffix(".log"), "w") as log:
            process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=log, text=True)
            timer = threading.Timer(limit, process.kill)
            timer.start()
            for line in process.stdout or ():
                if line.startswith("{"):
                    lines.append(line)
                    print(f"RecTools' {architecture} {line}", end="", flush=True)
            timer.cancel()
        if process.wait() != -signal.SIGKILL or not lines:
            raise SystemExit(f"RecTools ended by itself; see {log.name}")
        kept.write_text("".join(lines))
    points = [json.loads(line) for line in kept.read_text().splitlines()]
    return points[0]["version"], [(point["second"], point["ndcg"]) for point in points]


def curve_of(record: dict[str, Any]) -> Curve:
    """(second, NDCG@10) of every validation of a run."""
    return [(row["at_second"], row["valid"]["ndcg@10"]) for row in record["epochs"] if "valid" in row]


def first_at(curve: Curve, mark: float) -> float | None:
    """The second at which a curve reaches ``mark``."""
    return next((second for second, ndcg in curve if ndcg >= mark), None)


def plot(curves: dict[str, Curve], name: str) -> None:
    """Validation NDCG@10 against seconds."""
    figure, axes = plt.subplots(figsize=(6.5, 4.2))
    for (name, curve), style in zip(curves.items(), cycle(("o-", "s-", "^-", "v-", "D--", "x--", "+:"))):
        axes.plot(*zip(*curve, strict=True), style, label=name, markersize=4)
    for mark in MARKS:
        axes.axhline(mark, color="grey", linewidth=0.5)
    axes.set_xscale("log")
    axes.set_xticks([10, 20, 50, 100, 200], labels=["10", "20", "50", "100", "200"])
    axes.minorticks_off()
    axes.set(xlabel="seconds of training and validation", ylabel="validation NDCG@10")
    axes.set_title("ml-1m, full ranking, seen items left out")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / f"{name}.png", dpi=150)


def row_of(name: str, curve: Curve, test: str) -> dict[str, Any]:
    """A line of the table."""
    row: dict[str, Any] = {"contestant": name, "validations": len(curve), "seconds": f"{curve[-1][0]:.0f}"}
    for mark in MARKS:
        second = first_at(curve, mark)
        row[f"to {mark}, s"] = f"{second:.0f}" if second else f"not in {curve[-1][0]:.0f}"
    return {**row, "best": f"{max(ndcg for _, ndcg in curve):.4f}", "test": test}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", type=Path, required=True, help="folder that holds ml-1m/ml-1m.inter.gz")
    parser.add_argument("--environments", type=Path, default=Path("bench-envs"))
    parser.add_argument("--limit", type=float, default=300, help="seconds for each of RecTools' and for RecBole's")
    parser.add_argument("--seed", type=int, default=2020)
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    options = parser.parse_args()
    suppress_dependency_warnings()
    sys.argv = sys.argv[:1]  # RecBole reads options from there
    work, data_path = options.work.resolve(), options.data_path.resolve()
    shared = {"dataset": "ml-1m", "data_path": str(data_path), "exclude_seen": True, "valid_metric": "NDCG@10"}
    shared |= {"seed": options.seed, "stopping_step": 1000}
    curves: dict[str, Curve] = {}
    tests: dict[str, str] = {}
    for name, (model, given) in OURS.items():
        record = run_options(work, name.replace(", ", "-"), {**shared, **given}, model)
        curves[name], tests[name] = curve_of(record), f"{record['test_result']['ndcg@10']:.4f}"
    write_task(work / "ml-1m-quality.npz", data_path)
    for architecture in ("SASRec", "BERT4Rec"):
        version, curve = rectools_curve(work, options.environments.resolve(), architecture, options.limit)
        curves[f"RecTools {version} {architecture}"] = curve
    stock = {**shared, "training_rows": "user"}
    stocks = run_options(work, "RecBole-SASRec", stock, "SASRec", f"--budget={options.limit:.0f}s")
    curves["RecBole's SASRec, training_rows: user"] = curve_of(stocks)
    tests["RecBole's SASRec, training_rows: user"] = f"{stocks['test_result']['ndcg@10']:.4f}"
    flags = [f"{name}: `{' '.join(f'--{k}={v}' for k, v in given.items())}`" for name, (_, given) in OURS.items()]
    note = (
        f"Validation NDCG@10, full ranking, seen items left out, seed {options.seed}; H 64, 2 layers. "
        f"{'; '.join(flags)}; else the defaults. RecTools: N 100, 2 heads, batch 128, mask ratio 0.15, else its own "
        "defaults. RecBole's SASRec: its defaults (N 50). "
        f"RecTools' and RecBole's were stopped after {options.limit:.0f} s."
    )
    rows = [row_of(name, curve, tests.get(name, "")) for name, curve in curves.items()]
    name = "time_to_mark" if record["machine"]["gpu"] is None else "time_to_mark_cuda"
    write_tables(name, machine(record), rows, note)
    plot(curves, name)


if __name__ == "__main__":
    main()
