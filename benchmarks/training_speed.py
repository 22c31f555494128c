"""Seconds of a training epoch: this package, RecBole's own BERT4Rec, RecTools, RePlay and a Hugging Face loop, in turn.

Every contestant gets the same sequences (the last N items of every user) and the same sizes: H 64, 2 layers, 2 heads,
inner size 256. Each runs in a process, and the peers in environments of their own, made beforehand:

    python -m venv ENVS/rectools && ENVS/rectools/bin/pip install -r benchmarks/requirements-rectools.txt
    python -m venv ENVS/replay && ENVS/replay/bin/pip install -r benchmarks/requirements-replay.txt
    python -m venv ENVS/hugging_face && ENVS/hugging_face/bin/pip install -r benchmarks/requirements-hugging_face.txt

A contestant without its environment, or that fails, is listed as not run. The first epoch of each is dropped as
warm-up. RecBole's own is extrapolated from 5 batches. ``floor``: the matrix products of our epoch at the speed of this
machine's own float32 matrix product, as torch makes it by default, measured in the same run. ``--device=cuda`` has all
of them train on a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from records import ROOT, best_of, machine, write_tables

from recbole_bert4rec.system.environment import environment

PEERS = Path(__file__).resolve().parent / "peers"
CONTESTANTS = {
    "ours": ("recbole_plugin.py", None),
    "Hugging Face loop": ("hugging_face.py", "hugging_face"),
    "RecTools": ("rectools_bert4rec.py", "rectools"),
    "RePlay": ("replay_bert4rec.py", "replay"),
    "RecBole BERT4Rec": ("recbole_plugin.py", None),
}


def run_contestant(name: str, task: dict[str, Any], environments: Path, limit: float) -> dict[str, Any] | str:
    """The last line that a contestant printed, or why there is none."""
    script, place = CONTESTANTS[name]
    python = sys.executable if place is None else str(environments / place / "bin" / "python")
    if not Path(python).exists():
        return f"not run: no environment {place}"
    task = {**task, "model": "BERT4Rec" if name == "ours" else "RecBoleBERT4Rec"}
    command = [python, "-W", "ignore", str(PEERS / script), json.dumps(task)]
    work = Path(task["sequences"]).parent  # RecBole writes logs where it runs
    variables = {**os.environ, "PYTHONPATH": str(ROOT)} if place is None else None
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=limit, env=variables)
        printed, why = done.stdout, done.stderr.strip()[-200:]
    except subprocess.TimeoutExpired as error:
        printed, why = (error.stdout or b"").decode(), f"more than {limit:.0f} s"
    lines = [line for line in printed.splitlines() if line.startswith("{")]
    record: dict[str, Any] = json.loads(lines[-1]) if lines else {"seconds": []}
    return record if record["seconds"] else f"not run: {why}"


def floor_seconds(sequences: Path, length: int, masked: float, hidden_size: int, device: str) -> float:
    """Multiplications and additions of our epoch's matrix products, over the speed of one large product."""
    arrays = np.load(sequences)
    lengths = np.minimum(arrays["lengths"], length).astype(float)
    # query, key and value of every position, and attention among them
    mixed = 6 * hidden_size**2 * lengths.sum() + 4 * hidden_size * (lengths**2).sum()
    rest = 18 * hidden_size**2  # of a position, after attention; the last layer's only where an item is masked
    head = 2 * hidden_size**2 + 2 * hidden_size * float(arrays["n_items"])
    forward = 2 * mixed + rest * lengths.sum() + (rest + head) * masked
    left, right = torch.randn(2, 2048, 2048, device=device)

    def multiply() -> None:
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()

    return float(3 * forward * best_of(multiply, 8) / (2 * 2048.0**3))


def write(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Write the page."""
    columns = ("contestant", "version", "seconds an epoch", "to ours", "masked positions", "peak memory MB")
    rows = [{column: row.get(column, "") for column in columns} for row in rows]
    size = f"{options.dataset}, N {options.length}, H 64, batch {options.batch}, mask ratio {options.mask_ratio}"
    note = (
        f"{size}; hidden dropout 0.2, else each contestant's defaults (attention dropout 0.2 in RecTools and RePlay, "
        "0 in ours and the Hugging Face loop; ours takes a random window of long histories, the others the last). An "
        "epoch is a window of every user; RecBole's own is every prefix of every user. Median without the first epoch; "
        "float32."
    )
    name = f"training_speed_{options.dataset}_{options.length}" + ("_cuda" if options.device == "cuda" else "")
    write_tables(name, machine(environment()), rows, note)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="ml-1m")
    parser.add_argument("--data_path", help="folder that holds DATASET/DATASET.inter or .inter.gz")
    parser.add_argument("--length", type=int, default=100, help="N")
    parser.add_argument("--batch", type=int, default=128, help="sequences in a batch (RecBole's own: 2048 prefixes)")
    parser.add_argument("--mask_ratio", type=float, default=0.2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="that all contestants train on")
    parser.add_argument("--environments", type=Path, default=Path("bench-envs"))
    parser.add_argument("--limit", type=float, default=900, help="seconds for each contestant")
    parser.add_argument("--work", type=Path, default=Path("bench-work"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    sequences = options.work.resolve() / f"{options.dataset}-{options.length}.npz"
    data_path = options.data_path and str(Path(options.data_path).resolve())
    task = {key: getattr(options, key) for key in ("dataset", "length", "batch", "mask_ratio", "epochs", "device")}
    task |= {"data_path": data_path, "sequences": str(sequences), "hidden_size": 64, "options": {}}
    rows, ours = [], None
    for name in options.only:
        record = run_contestant(name, task, options.environments.resolve(), options.limit)
        if isinstance(record, str):
            rows.append({"contestant": name, "version": record})
            continue
        if len(record["seconds"]) < 2:
            rows.append({"contestant": name, "version": f"warm-up only: {record['seconds'][0]:.0f} s"})
            continue
        seconds, masked = statistics.median(record["seconds"][1:]), statistics.mean(record["masked"][1:])
        if name == "ours":
            ours = seconds
        rows.append(
            {
                "contestant": name,
                "version": record["version"],
                "seconds an epoch": f"{seconds:.2f}" + (" (5 batches)" if record.get("extrapolated") else ""),
                "to ours": f"{seconds / ours:.1f}" if ours else "",
                "masked positions": f"{masked:,.0f}",
                "peak memory MB": round(record["memory"]),
            }
        )
        if name == "ours":
            least = floor_seconds(sequences, options.length, masked, 64, options.device)
            floor = {"contestant": "floor", "seconds an epoch": f"{least:.2f}", "to ours": f"{least / seconds:.2f}"}
            rows.append(floor)
        print(rows[-1], flush=True)
    write(rows, options)


if __name__ == "__main__":
    main()
