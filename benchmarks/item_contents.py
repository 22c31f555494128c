"""What contents of items bring and cost: quality on ml-100k, items that nobody has had, rare items, a million items.

The vectors of ml-100k are those of ``examples/text_vectors.py``. Parts that are there are not made again: another
``--work`` starts anew.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from catalogues import once
from numpy.typing import NDArray
from pyarrow import parquet
from records import ROOT, command, machine, run_options, table_lines, with_deviation, write_inter, write_page

from recbole_bert4rec import append_items, load
from recbole_bert4rec.system.environment import environment

MODEL = "BERT4RecPlus"
COLUMNS = {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class", "release_year"]}
_ALSO = "--also_test=protocol-full-unseen.yaml"
_NEIGHBOURS = 10
_K, _DEEP = 10, 100
_NEGATIVES = 6000


def checkpoint_of(folder: Path) -> Path:
    """Return the checkpoint of a run."""
    (found,) = (file for file in folder.glob("*.pth") if not file.name.endswith(".last.pth"))
    return found


def write_titles(data: Path, work: Path) -> Path:
    """Make vectors of the titles, and write the .item file with the year as a number."""
    titles = work / "titles.parquet"
    item_file = data / "ml-100k" / "ml-100k.item"
    script = [sys.executable, str(ROOT / "examples" / "text_vectors.py"), str(item_file), str(titles)]
    subprocess.run([*script, "--columns", "movie_title", "class", "release_year"], check=True)
    folder = work / "data" / "ml-100k"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ml-100k.inter").write_bytes((data / "ml-100k" / "ml-100k.inter").read_bytes())
    table = pd.read_csv(item_file, sep="\t", dtype=str, keep_default_na=False, quoting=3)
    year = table.pop("release_year:token")
    table["release_year:float"] = year.where(year.str.fullmatch(r"\d{4}"), "")
    table.to_csv(folder / "ml-100k.item", sep="\t", index=False)
    return titles


def quality(data: Path, work: Path, seeds: list[int]) -> list[dict[str, Any]]:
    """Compare runs on ml-100k with and without contents."""
    titles = str(write_titles(data, work).resolve())
    base = {"dataset": "ml-100k", "data_path": str((work / "data").resolve())}
    more = {"load_col": COLUMNS, "selected_features": ["class", "release_year"]}
    ways: dict[str, dict[str, Any]] = {
        "ids": {},
        "ids and texts": {"item_vectors": titles},
        "ids, texts, genres and year": {"item_vectors": titles, **more},
    }
    rows = []
    for number, (way, options) in enumerate(ways.items()):
        runs = [
            run_options(work, f"ml-100k-{number}-{seed}", {**base, **options, "seed": seed}, MODEL, _ALSO)
            for seed in seeds
        ]
        results = {
            "validation": [run["best_valid_result"] for run in runs],
            "test": [run["test_result"] for run in runs],
            "test, seen items left out": [next(iter(run["also"].values())) for run in runs],
        }
        row = {"ml-100k": way}
        for name, metrics in results.items():
            row[f"NDCG@10, {name}"] = with_deviation([one["ndcg@10"] for one in metrics])
        rows.append(row)
    return rows


def cold(data: Path, work: Path, seed: int) -> dict[str, Any]:
    """Take a tenth of the items out of the log, and ask for them."""
    titles = write_titles(data, work)
    log = pd.read_csv(data / "ml-100k" / "ml-100k.inter", sep="\t", usecols=[0, 1, 3], dtype=str)
    log.columns = pd.Index(["user", "item", "time"])
    log = log.assign(time=log["time"].astype(float)).sort_values(["user", "time"], kind="stable")
    counts = log["item"].value_counts()
    often = counts.index[counts >= 5].to_numpy()
    hidden = np.random.default_rng(seed).choice(often, len(often) // 10, replace=False)
    is_hidden = log["item"].isin(hidden)
    rest = log[~is_hidden]
    name = f"cold-{seed}"
    write_inter(work / "data" / name / f"{name}.inter", rest["user"], rest["item"], rest["time"])
    options = {"dataset": name, "data_path": str((work / "data").resolve()), "seed": seed}
    run_options(work, f"{name}-titles", {**options, "item_vectors": str(titles.resolve())}, MODEL)
    run_options(work, f"{name}-ids", options, MODEL)
    first = log[is_hidden].drop_duplicates("user")
    wanted = dict(zip(first["user"], first["item"], strict=True))
    before = rest[rest["time"] <= rest["user"].map(dict(zip(first["user"], first["time"], strict=True)))]
    histories: dict[str, list[str]] = {
        str(user): list(rows["item"]) for user, rows in before.groupby("user", sort=False)
    }
    vectors = pd.read_parquet(titles)
    told = dict(zip(vectors["item_id"], vectors["vector"], strict=True))
    known = rest["item"].unique()
    table = np.stack([told[item] for item in known])
    table = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-9)
    near = {item: known[np.argsort(-table @ told[item])[:_NEIGHBOURS]].tolist() for item in hidden}
    models: dict[str, Any] = {
        "texts": load(checkpoint_of(work / f"{name}-titles"), "cpu"),
        "mean of 10 items with near texts": append_items(checkpoint_of(work / f"{name}-ids"), near, device="cpu"),
    }
    row: dict[str, Any] = {"seed": seed, "hidden items": len(hidden), "users": len(histories)}
    for way, model in models.items():
        row[f"recall@{_K} among them, {way}"] = f"{recall(model, histories, wanted, hidden.tolist()):.3f}"
    row["by chance"] = f"{_K / len(hidden):.3f}"
    for way, model in models.items():
        row[f"recall@{_DEEP} among all, {way}"] = f"{recall(model, histories, wanted, None, _DEEP):.3f}"
    return row


def recall(model: Any, histories: dict[str, list[str]], wanted: dict[str, str], items: Any, k: int = _K) -> float:
    """Return the share of the users whose item is in the list."""
    lists = model.recommend(histories, k=k, items_to_recommend=items)
    hits = lists[lists["item_id"].to_numpy() == lists["user_id"].map(wanted).to_numpy()]
    return len(hits) / len(histories)


def draw_by_groups(n_items: int, users: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw histories of items of three groups, and the groups of all items; some items and groups are liked most.

    *Shape:* (users, length), (n_items,)
    """
    draw, groups = np.random.default_rng(0), n_items // 20
    group = draw.integers(0, groups, n_items)
    members = [np.flatnonzero(group == g) for g in range(groups)]
    shares = [1 / np.arange(1, len(m) + 1) ** 0.9 for m in members]
    bounds = [share.cumsum() / share.sum() for share in shares]
    liked = 1 / np.arange(1, groups + 1) ** 0.8
    tastes = draw.choice(groups, (users, 3), p=liked / liked.sum())
    chosen = np.take_along_axis(tastes, draw.integers(0, 3, (users, length)), 1)
    where = draw.random(chosen.shape)
    items = np.empty(chosen.shape, np.int64)
    for g in range(groups):
        rows = chosen == g
        items[rows] = members[g][np.searchsorted(bounds[g], where[rows], "right")]
    return items, group


def write_vectors(path: Path, group: NDArray[np.int64], width: int) -> None:
    """Write a vector of each item: its group's, and as much noise."""
    draw = np.random.default_rng(1)
    table = draw.standard_normal((group.max() + 1, width), dtype=np.float32)[group]
    table += draw.standard_normal(table.shape, dtype=np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), width)
    parquet.write_table(pa.table({"item_id": pa.array(np.arange(len(group))).cast(pa.string()), "vector": lists}), path)


def made_log(
    work: Path, name: str, items: NDArray[np.int64], group: NDArray[np.int64], width: int
) -> tuple[dict[str, Any], str]:
    """Write histories and vectors; return the options of their runs, and the file of vectors."""
    users, length = items.shape
    columns = np.repeat(np.arange(users), length), items.ravel(), np.tile(np.arange(length), users)
    write_inter(work / "data" / name / f"{name}.inter", *columns)
    write_vectors(work / f"{name}.parquet", group, width)
    return {"dataset": name, "data_path": str((work / "data").resolve())}, str((work / f"{name}.parquet").resolve())


def rare(work: Path, n_items: int, epochs: int) -> list[dict[str, Any]]:
    """Compare models of a made log by how often the target stands in training."""
    items, group = draw_by_groups(n_items, n_items // 4, 20)
    base, vectors = made_log(work, "rare", items, group, 64)
    items = items.astype(str)
    counts = pd.Series(items[:, :-2].ravel()).value_counts().reindex(items[:, -1], fill_value=0).to_numpy()
    rows: list[dict[str, Any]] = []
    models: dict[str, Any] = {}
    reads: dict[str, dict[str, Any]] = {"ids": {}, "vectors": {"item_vectors": vectors}}
    more = {
        f"{way}, {_NEGATIVES:,} negatives": {**options, "n_negatives": _NEGATIVES} for way, options in reads.items()
    }
    for way, options in {**reads, **more}.items():
        folder = f"rare-{way.replace(', ', '-').replace(' ', '-')}"
        run_options(work, folder, {**base, **options, "epochs": epochs}, MODEL)
        models[way] = load(checkpoint_of(work / folder), "cpu", cold_items=False)
    for least, most in ((0, 0), (1, 2), (3, 5), (6, 20), (21, 100), (101, 10**9)):
        chosen = np.flatnonzero((counts >= least) & (counts <= most))[:5000]
        row: dict[str, Any] = {"target in training": f"{least} to {most}" if most < 10**9 else f"{least} or more"}
        row["users"] = len(chosen)
        for way, model in models.items():
            found = model.evaluate(items[chosen, :-1].tolist(), items[chosen, -1].tolist())
            row[f"NDCG@10, {way}"] = f"{found['ndcg@10']:.4f}"
        rows.append(row)
    return rows


def large(work: Path, n_items: int, width: int) -> list[dict[str, Any]]:
    """Measure an epoch, loading and ranking with a long vector of each item and without."""
    draw = np.random.default_rng(0)
    items = np.concatenate([draw.integers(0, n_items, n_items // 5), draw.permutation(n_items)])
    base, vectors = made_log(work, "large", items.reshape(-1, 12), np.arange(n_items) // 200, width)
    base |= {"epochs": 1, "sparse_update": True, "memory": False, "eval_step": 0}
    rows = []
    for way, options in (("ids", {}), ("vectors", {"item_vectors": vectors})):
        folder = f"large-{way}"
        record = run_options(work, folder, {**base, **options}, MODEL)
        seconds: list[float] = []
        for _ in range(3):
            begin = time.perf_counter()
            model: Any = load(checkpoint_of(work / folder), "cpu")
            seconds.append(time.perf_counter() - begin)
        histories = [[str(item) for item in row] for row in np.random.default_rng(0).integers(1, 1000, (500, 10))]
        model.recommend(histories[:10], k=_K)
        begin = time.perf_counter()
        model.recommend(histories, k=_K)
        rows.append(
            {
                f"{n_items:,} items; the model reads": "ids" if way == "ids" else f"ids, and {width} numbers of each",
                "epoch s": f"{record['epochs'][0]['train_seconds']:.1f}",
                "peak memory MB": f"{record['peak_memory_mb']:.0f}",
                "load s": f"{statistics.median(seconds):.1f}",
                f"top {_K} of 500 histories s": f"{time.perf_counter() - begin:.2f}",
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_path", type=Path, default=Path("dataset"), help="folder with ml-100k")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2020, 2021, 2022])
    parser.add_argument("--made_items", type=int, default=100_000)
    parser.add_argument("--made_epochs", type=int, default=10)
    parser.add_argument("--large_items", type=int, default=1_000_000)
    parser.add_argument("--large_width", type=int, default=384)
    parser.add_argument("--work", type=Path, default=Path("bench-work/item_contents"))
    parser.add_argument("--parts", nargs="+", default=["quality", "cold", "rare", "large"])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    tables: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "quality": lambda: quality(options.data_path, options.work, options.seeds),
        "cold": lambda: [cold(options.data_path, options.work, seed) for seed in options.seeds],
        "rare": lambda: rare(options.work, options.made_items, options.made_epochs),
        "large": lambda: large(options.work, options.large_items, options.large_width),
    }
    lines = [f"`{command()}`", "", f"Machine: {machine(environment())}.", ""]
    for part in options.parts:
        rows = once(options.work / f"{part}.json", partial(_row_of, tables[part]))["rows"]
        lines += [HEADS[part], "", *table_lines(rows), ""]
    write_page("item_contents", "\n".join(lines).strip() + "\n")


def _row_of(make: Callable[[], list[dict[str, Any]]]) -> dict[str, Any]:
    return {"rows": make()}


HEADS = {
    "quality": "ml-100k with vectors of titles, genres and years (TF-IDF, SVD to 64 numbers): "
    "means over the seeds, defaults alone.",
    "cold": "A tenth of ml-100k's items with 5 interactions or more, chosen by the seed, are left out. Of each user "
    "who had one, the first is wanted, after what came before it. "
    "Vectors are of titles, genres and years. The 10 neighbours have the nearest.",
    "rare": "A made log: users of 20 items, four items a user. A user has three of the groups of about 20 items; "
    "groups and their items are liked by power laws. A vector is its group's, 64 normal numbers, and as much noise.",
    "large": "A made log of a fifth more interactions than items, each item among them; `--sparse_update=True`.",
}


if __name__ == "__main__":
    main()
