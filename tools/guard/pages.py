"""Runs the commands of README and docs, one epoch each, from the wheel in folders without a checkout.

    python tools/guard/pages.py TREE --work=FOLDER [--only=PAGE,PAGE]

TREE's own environment runs this; the wheel is installed into another one, with all extras. The commands of a page run
in its order, in a folder of its own that holds what the page's reader has. The exit code is 1 if one of them fails.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from data import log
from twin import executed

LIMIT_S = 120
"""Seconds after which a command that serves or trains is ended, and has not failed."""
LEFT_OUT = {
    "docker": "a container",
    "IMAGE": "a container",
    "--rdzv_endpoint=HEAD:29500": "several machines",
    "--ray_address=auto": "a cluster",
    "--dataset=ml-1m": "a file that cannot be had here",
}
PROGRAMS = {"python run.py": "recbole-bert4rec run", "python run_hyper.py": "recbole-bert4rec tune"}
"""What runs from another folder in place of a checkout's programs, as README says."""


def main() -> int:
    """Run all pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tree", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", default="", help="names of pages, separated by commas")
    options = parser.parse_args()
    tree, work = options.tree.resolve(), options.work.resolve()
    sys.path.insert(0, str(tree))
    from tests.house.test_docs import DOCS, TITLED, commands

    programs, readers = work / "venv" / "bin", work / "reader"
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(work), "LANG": "C.UTF-8"}
    if not (work / "made").exists():
        shutil.rmtree(work, ignore_errors=True)
        install(tree, work, programs)
        prepare(readers, tree)
        train(readers, environment)
        (work / "made").touch()
    counts = dict.fromkeys(("ok", "failed", "left out"), 0)
    for page in DOCS:
        text = page.read_text("utf-8")
        lines = list(dict.fromkeys(line for words in commands(text) if (line := asked(words))))
        if not lines or (options.only and page.stem not in options.only.split(",")):
            continue
        folder = work / "pages" / page.stem
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(readers, folder)
        for name, content in TITLED.findall(text):
            (folder / name).write_text(content, "utf-8")
        for line in lines:
            why = next((why for word, why in LEFT_OUT.items() if word in line.split()), "")
            began = time.perf_counter()
            if "shop.csv" in line and "FILE.pth" in line:  # the model of this log, which the page has just trained
                line = line.replace("saved/FILE.pth", str(newest(folder)))
            code = None if why else executed(line, folder, environment, LIMIT_S)
            ended = code == 124 and re.search(r" (run|compare|tune|serve) ", line)
            outcome = "left out" if why else "ok" if code == 0 or ended else "failed"
            counts[outcome] += 1
            print(f"{page.stem:15} {outcome:8} {time.perf_counter() - began:4.0f} s  {line}  {why}", flush=True)
    print(counts)
    return int(counts["failed"] > 0)


def install(tree: Path, work: Path, programs: Path) -> None:
    """Build the wheel and install it with all extras."""
    subprocess.run([sys.executable, "-m", "venv", work / "venv"], check=True)
    pip = [programs / "python", "-m", "pip"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", work, tree], check=True)
    [wheel] = work.glob("*.whl")
    subprocess.run([*pip, "install", "-q", "torch==2.13.0", f"{wheel}[tune,serve,onnx]"], check=True)
    subprocess.run([*pip, "install", "-q", "--no-deps", "recbole==1.2.1"], check=True)


def prepare(folder: Path, tree: Path) -> None:
    """Make what readers have: a log by the names of each page, files of options, vectors."""
    (folder / "users").mkdir(parents=True)
    (folder / "clicks").mkdir()
    frame = log(users=300)[["user_id", "item_id", "timestamp"]]
    shop = frame.set_axis(["customer", "product", "bought"], axis=1)
    shop.to_csv(folder / "shop.csv", index=False)
    shop.to_csv(folder / "clicks" / "part.csv", index=False)
    frame["item_id"] = frame["item_id"].str.removeprefix("i").astype(int) + 1
    frame.to_csv(folder / "log.csv", index=False)
    frame.to_csv(folder / "users" / "part.csv", index=False)
    (folder / "shop.yaml").write_text("USER_ID_FIELD: customer\nITEM_ID_FIELD: product\nTIME_FIELD: bought\n")
    for name in ("my.yaml", "hyper.best.yaml"):
        (folder / name).write_text("epochs: 1\n")
    shutil.copytree(tree / "hyper", folder / "hyper")
    vectors = np.random.default_rng(0).normal(size=(1682, 8)).astype(np.float32)
    ids = [str(item) for item in range(1, 1683)]
    pd.DataFrame({"item_id": ids, "vector": list(vectors)}).to_parquet(folder / "texts.parquet")


def train(folder: Path, environment: dict[str, str]) -> None:
    """Make the checkpoint that pages call FILE.pth, beside the file of its items."""
    if executed("recbole-bert4rec run --epochs=1 --keep_histories=True", folder, environment, LIMIT_S) != 0:
        raise SystemExit(f"the first run failed: {folder / 'screen.txt'}")
    [checkpoint] = [path for path in (folder / "saved").glob("*.pth") if ".last" not in path.name]
    for path in (checkpoint, checkpoint.with_suffix(".last.pth")):
        path.rename(path.with_name(path.name.replace(checkpoint.stem, "FILE")))
    [items] = folder.parent.glob("venv/lib/*/site-packages/recbole/dataset_example/ml-100k/ml-100k.item")
    shutil.copy(items, folder)


def newest(folder: Path) -> Path:
    """Return the checkpoint that was trained last."""
    checkpoints = [path for path in folder.glob("saved/*.pth") if ".last" not in path.name]
    return max(checkpoints, key=lambda path: path.stat().st_mtime)


def asked(words: list[str]) -> str:
    """Return what is run for a command of a page: one epoch, one trial; an empty text for programs of others."""
    line = shlex.join(words)
    for of_checkout, installed in PROGRAMS.items():
        line = line.replace(of_checkout, installed)
    if ("recbole" not in line and "torchrun" not in line) or "pip" in words or "-c" in words:
        return ""
    line = line.replace("torchrun --nproc_per_node=2 run.py", "torchrun --nproc_per_node=2 -m recbole_bert4rec run")
    if re.search(r"bert4rec (run|compare|tune)", line) and "--help" not in line:
        line = re.sub(r"--(epochs|budget|max_evals)=\S+", "", line) + " --epochs=1"
        line += " --max_evals=1" if " tune" in line and "--algo" in line else ""
    return " ".join(line.split())


if __name__ == "__main__":
    sys.exit(main())
