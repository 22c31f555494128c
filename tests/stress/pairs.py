"""Starts runs in one folder at the same moment, and looks for anything that they share."""

from __future__ import annotations

import json
from pathlib import Path

from recbole_bert4rec.checkpoints import checkpoint
from tests.stress.programs import start


def pairs(folder: Path, count: int, flags: list[str]) -> bool:
    """Return whether nothing was mixed in ``count`` pairs: two new runs, then two that go on from one checkpoint."""
    mixed = []
    for number in range(count):
        place = folder / str(number)
        both = [start(place, f"--seed={seed}", *flags) for seed in (1, 2)]
        printed = [process.communicate()[0] for process in both]
        mixed += [text[-500:] for process, text in zip(both, printed, strict=True) if process.returncode]
        records = [json.loads(file.read_text("utf-8")) for file in (place / "saved").glob("*.json")]
        if sorted(record["seed"] for record in records) != [1, 2]:
            mixed.append(f"{place}: records of seeds {[record['seed'] for record in records]}")
        for record in records:
            for name in (record["checkpoint"], checkpoint.last_of(record["checkpoint"])):
                if checkpoint.read(place / name)["config"]["seed"] != record["seed"]:
                    mixed.append(f"{name} is the other run's")
        for kind in ("log/*/*.log", "log_tensorboard/*"):
            if len(list(place.glob(kind))) != 2:
                mixed.append(f"{place}: {kind} are {sorted(place.glob(kind))}")
        last = checkpoint.last_of(records[0]["checkpoint"])
        both = [start(place, f"--resume={last}", "--epochs=9", *flags) for _ in range(2)]
        printed = [process.communicate()[0] for process in both]
        codes = sorted(process.returncode for process in both)
        refused = [text for text in printed if "another run is writing" in text]
        if codes not in ([0, 0], [0, 2]) or len(refused) != codes.count(2):
            mixed.append(f"{place}: exit codes {codes}")
        print(f"pair {number}: {'together refused one' if refused else 'one after the other'}", flush=True)
    print(f"{count} pairs of new runs and {count} of resumed ones; mixed: {mixed}")
    return not mixed
