"""Makes the logs of the guard: one of users and items as CSV, JSON lines, Parquet and atomic files, with contents."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd


def log(users: int = 120, items: int = 60, seed: int = 7) -> pd.DataFrame:
    """Users who mostly go on to the next item, with ratings, events and times in an order that is not the file's."""
    rng, rows = np.random.default_rng(seed), []
    for user in range(users):
        at = int(rng.integers(items))
        for step in range(int(rng.integers(4, 22))):
            time = 1_700_000_000 + user * 997 + step * 3600 + int(rng.integers(3000))
            rows.append((f"u{user}", f"i{at}", time, int(rng.integers(1, 6)), ["view", "buy"][int(rng.integers(2))]))
            at = (at + 1) % items if rng.random() < 0.6 else int(rng.integers(items))
    frame = pd.DataFrame(rows, columns=["user_id", "item_id", "timestamp", "rating", "event"])
    return frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def main(folder: Path) -> None:
    """Write all files."""
    frame = log()
    frame.to_csv(folder / "shop.csv", index=False)
    frame.to_json(folder / "lines.jsonl", orient="records", lines=True)
    frame.to_parquet(folder / "table.parquet", index=False)
    later = log(users=150, items=70)
    later.to_csv(folder / "later.csv", index=False)
    dates = frame.assign(timestamp=pd.to_datetime(frame["timestamp"], unit="s").dt.strftime("%d.%m.%Y %H:%M:%S"))
    dates.to_csv(folder / "dates.csv", index=False, sep=";")
    toy = folder / "toy"
    toy.mkdir()
    kinds = {"user_id": "token", "item_id": "token", "timestamp": "float", "rating": "float", "event": "token"}
    frame.rename(columns={name: f"{name}:{kind}" for name, kind in kinds.items()}).to_csv(
        toy / "toy.inter", sep="\t", index=False
    )
    items = [f"i{item}" for item in range(62)]
    about = {"item_id:token": items, "class:token": [f"c{n % 5}" for n in range(62)], "price:float": np.arange(62) / 7}
    pd.DataFrame(about).to_csv(toy / "toy.item", sep="\t", index=False)
    vectors = np.random.default_rng(1).normal(size=(62, 6)).astype(np.float32)
    pd.DataFrame({"item_id": items, "vector": list(vectors)}).to_parquet(folder / "vectors.parquet")
    (folder / "space.hyper").write_text("ft_ratio choice [0.1,0.6]\nmask_ratio choice [0.2,0.4]\n")
    (folder / "ratio.yaml").write_text(
        "axis: mask_ratio\nvariants: {few: {mask_ratio: 0.2}, many: {mask_ratio: 0.5}}\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
