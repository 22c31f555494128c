"""The service under load: time of a request, requests a second, malformed ones, a new checkpoint, memory.

The service is a process of its own with the defaults of ``serve``; the clients are threads of this one, each with a
connection that it keeps. A request asks for ten items after a history of up to 50 items drawn from the catalogue; one
in ten is malformed. With ``--minutes`` every second of these is hostile instead: it asks for the largest answer and
goes away or does not read it, sends half a question, or nothing, and leaves the connection open.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from records import machine, write_tables

from recbole_bert4rec import load
from recbole_bert4rec.system.environment import environment

MALFORMED = (
    b"{",
    b"",
    b"\xff\xfe{",
    b"[" * 10_000,
    b"{}",
    b'{"histories": [[1.5]]}',
    b'{"histories": [["x"]], "k": 0}',
    b'{"histories": [["x"]], "items_to_recommend": ["no such item"]}',
    rb'{"histories": [["\ud800"]]}',
    b'{"histories": "x", "what": 1}',
    b" " * (1 << 20) + b"{}",
)
HOSTILE = b"hostile"
"""Stands for a request that is not asked like others."""
NOT_READ = -1


class Asked(NamedTuple):
    """A request that was answered.

    Attributes:
        malformed: whether it was.
        status: of the answer; 0 where there was none, :data:`NOT_READ` where it was not waited for.
        seconds: that it took.
    """

    malformed: bool
    status: int
    seconds: float


class Client(threading.local):
    """A connection for each thread."""

    def __init__(self, port: int) -> None:
        self.port, self.attacks, self.kept = port, 0, deque[socket.socket](maxlen=100)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def attack(self) -> Asked:
        """Be hostile in one of four ways, in turn."""
        begin = time.perf_counter()
        body = json.dumps({"histories": [["1"] * 200] * 100, "k": 100}).encode()
        head = "POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        whole = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self.attacks += 1
        way = self.attacks % 4
        with suppress(OSError):
            attacker = socket.create_connection(("127.0.0.1", self.port), timeout=10)
            attacker.sendall((whole, whole, whole[: len(whole) // 2], b"")[way])
            if way == 0:
                attacker.close()
            else:
                self.kept.append(attacker)
        return Asked(True, NOT_READ, time.perf_counter() - begin)

    def ask(self, body: bytes, malformed: bool) -> Asked:
        """Post to /recommend."""
        if body is HOSTILE:
            return self.attack()
        begin, status = time.perf_counter(), 0
        try:
            with suppress(ConnectionError):  # a body that is too long is answered before all of it was sent
                self.connection.request("POST", "/recommend", body, {"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException):
            self.connection.close()
        return Asked(malformed, status, time.perf_counter() - begin)

    def get(self, path: str) -> bytes:
        """Return what is at an address."""
        self.connection.close()  # the service ends those that were idle
        self.connection.request("GET", path)
        return self.connection.getresponse().read()

    def memory(self) -> float:
        """Return the memory that the service holds, in MB."""
        lines = self.get("/metrics").decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("process_resident_memory")) / 2**20

    def loads(self) -> int:
        """Return how often the service has loaded its checkpoint."""
        loads: int = json.loads(self.get("/health"))["checkpoints"][0]["loads"]
        return loads


def bodies(items: list[str], n: int, hostile: bool) -> list[tuple[bytes, bool]]:
    """Make requests, and say which are malformed."""
    draw, made = random.Random(0), list[tuple[bytes, bool]]()
    for number in range(n):
        history = draw.choices(items, k=draw.randint(1, 50))
        well = json.dumps({"histories": [history], "k": 10}).encode()
        wrong = HOSTILE if hostile and number % 20 == 19 else MALFORMED[number // 20 % len(MALFORMED)]
        made.append((wrong, True) if number % 10 == 9 else (well, False))
    return made


def load_with(client: Client, clients: int, requests: list[tuple[bytes, bool]]) -> tuple[list[Asked], float]:
    """Ask all requests from some clients at once, and return the answers and the seconds of all."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda one: client.ask(*one), requests))
    return found, time.perf_counter() - begin


def row(clients: int, swaps: int, found: list[Asked], seconds: float, memory: float) -> dict[str, object]:
    """Sum a load up."""
    well = [one.seconds * 1000 for one in found if not one.malformed]
    return {
        "clients": clients,
        "new checkpoints": swaps,
        "requests": f"{len(found):,}",
        "requests a second": f"{len(found) / seconds:.0f}",
        "p50 ms": f"{np.percentile(well, 50):.0f}",
        "p99 ms": f"{np.percentile(well, 99):.0f}",
        "answers": _counted(one.status for one in found if not one.malformed),
        "answers to malformed": _counted(one.status for one in found if one.malformed),
        "memory MB": f"{memory:.0f}",
    }


def _counted(statuses: Iterable[int]) -> str:
    counts = sorted(Counter(statuses).items())
    return ", ".join(f"{count:,} x {'not read' if status == NOT_READ else status}" for status, count in counts)


def check(found: list[Asked], busy: bool = False) -> None:
    """Fail where a request was not answered as it should be; ``busy``: 503 is as it should be."""
    may_be = {NOT_READ, *range(400, 500)}, {200}
    wrong = [one for one in found if one.status not in may_be[not one.malformed] and not (busy and one.status == 503)]
    if wrong:
        raise SystemExit(f"{len(wrong)} requests were not answered as they should be, such as {wrong[0]}")


def replace_often(client: Client, path: Path, other: Path, times: int) -> None:
    """Put the other checkpoint and the first one into the place of the served one, in turn."""
    first = path.with_name("first.pth")
    shutil.copy(path, first)
    for turn in range(times):
        shutil.copy(other if turn % 2 == 0 else first, path.with_name("new.pth"))
        before = client.loads()
        os.replace(path.with_name("new.pth"), path)
        while client.loads() == before:
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", required=True, help="to serve")
    parser.add_argument("--other", required=True, help="another checkpoint, put into its place under load")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--requests", type=int, default=10_000, help="of all loads together (default: %(default)s)")
    parser.add_argument("--swaps", type=int, default=5, help="checkpoints that are put into place under load")
    parser.add_argument("--minutes", type=float, default=0, help="instead: eight clients for so long, in six rows")
    options = parser.parse_args()
    items = load(options.checkpoint, "cpu").items
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copy(options.checkpoint, Path(folder) / "served.pth"))
        command = [sys.executable, "-m", "recbole_bert4rec", "serve", f"--checkpoint={path}", "--port=0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                client = Client(int(process.stderr.readline().rpartition(":")[2]))
                requests = bodies(items, options.requests, options.minutes > 0)
                load_with(client, 4, requests[:100])
                busy = f"load average of the machine {os.getloadavg()[0]:.1f}"
                notes = f"{len(items):,} items. Before: memory {client.memory():.0f} MB, {busy}."
                if options.minutes:
                    name, rows = "serving_long", load_long(client, requests, options.minutes)
                else:
                    name, rows = "serving", measure(client, requests, options, path)
            finally:
                process.terminate()
    write_tables(name, machine(environment()), rows, notes)


def measure(
    client: Client, requests: list[tuple[bytes, bool]], options: argparse.Namespace, path: Path
) -> list[dict[str, object]]:
    """Load the service with each number of clients, then with eight while checkpoints change; a row for each load."""
    share = len(requests) // (len(options.clients) + 1)
    parts = [requests[begin : begin + share] for begin in range(0, share * (len(options.clients) + 1), share)]
    rows = []
    for clients, part in zip(options.clients, parts, strict=False):
        found, seconds = load_with(client, clients, part)
        check(found)
        rows.append(row(clients, 0, found, seconds, client.memory()))
    found, begin = [], time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        swaps = pool.submit(replace_often, client, path, Path(options.other), options.swaps)
        while not swaps.done() or not found:
            found += load_with(client, 8, parts[-1])[0]
        swaps.result()
    check(found)
    rows.append(row(8, client.loads() - 1, found, time.perf_counter() - begin, client.memory()))
    return rows


def load_long(client: Client, requests: list[tuple[bytes, bool]], minutes: float) -> list[dict[str, object]]:
    """Load the service with eight clients; a row for each sixth of the time."""
    rows = []
    for _ in range(6):
        found, begin = [], time.perf_counter()
        while time.perf_counter() < begin + 10 * minutes:
            found += load_with(client, 8, requests)[0]
        check(found, busy=True)
        rows.append(row(8, 0, found, time.perf_counter() - begin, client.memory()))
    return rows


if __name__ == "__main__":
    main()
