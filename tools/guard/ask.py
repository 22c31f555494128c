"""Asks a checkpoint, or an exported folder, and prints the answers: ask.py FILE [all | cold | service]."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pandas as pd

HISTORIES = {"a": ["i1", "i2", "i3"], "b": ["i40"], "c": [], "d": [f"i{n}" for n in range(30)]}


def rounded(table: pd.DataFrame) -> str:
    """Return a table as a line of JSON; a score to the last digit of float32."""
    return table.to_json(orient="values", double_precision=15)


def answers(path: str) -> None:
    """Print what a model says."""
    from recbole_bert4rec import load

    model = load(path)
    print(rounded(model.recommend(HISTORIES, k=5)))
    print(rounded(model.recommend(HISTORIES, k=5, filter_viewed=False, exclude=["i5", "i6"])))
    print(rounded(model.score(HISTORIES, ["i1", "i9"])))
    print(rounded(model.rank_of(HISTORIES, dict.fromkeys(HISTORIES, "i7"))))
    log = pd.read_csv("shop.csv")
    print(json.dumps(model.evaluate(log, topk=(1, 10))))
    print(hash_of(model.user_vectors(HISTORIES).vectors))
    if Path(path).is_file():  # an exported folder has no vectors of items
        print(rounded(model.similar_items(["i1", "i50"], k=4)))
        print(hash_of(model.user_vectors().vectors) if model.stored is not None else "none stored")


def hash_of(array: object) -> int:
    """Return a digest of an array."""
    return int(pd.util.hash_array(array.ravel().astype("float64")).sum())


def service(path: str) -> None:
    """Print what a service answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "recbole_bert4rec", "serve", f"--checkpoint={path}", f"--port={port}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            asked = {"histories": list(HISTORIES.values()), "k": 3}
            for _ in range(120):
                try:
                    print(post(port, "recommend", asked))
                    break
                except urllib.error.HTTPError:
                    raise
                except OSError:  # it does not listen yet
                    assert server.poll() is None, "the service has ended"
                    time.sleep(0.5)
            print(post(port, "similar", {"items": ["i1"], "k": 3}))
        finally:
            server.terminate()


def post(port: str, path: str, content: object) -> str:
    """Return the answer to a question."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{path}", json.dumps(content).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return answer.read().decode()


if __name__ == "__main__":
    (service if sys.argv[2:] == ["service"] else answers)(sys.argv[1])
