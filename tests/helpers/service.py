"""A service in this process, over files that a test changes."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from recbole_bert4rec import load
from tests.helpers.trained import trained_in

for library in ("fastapi", "uvicorn", "prometheus_client"):
    pytest.importorskip(library, reason="the service needs `[serve]`")
from recbole_bert4rec.serving.answering import FollowedCheckpoint  # noqa: E402
from recbole_bert4rec.serving.app import make_server  # noqa: E402

NAMES = ["item_id:token\ttitle:token_seq", *(f"i{i}\tThing {i}" for i in range(24))]
NAMES += ["i24\t<img src=x onerror=alert(1)>", "i25\t"]


class Files(NamedTuple):
    """Checkpoints of two models, and names of their items."""

    one: str
    other: str
    items: str


class Service:
    """A server in a thread of its own."""

    def __init__(self, checkpoint: str, items: str | None = None) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.place = listening.getsockname()
        self.address = f"http://127.0.0.1:{self.place[1]}"
        self._server = make_server(FollowedCheckpoint(checkpoint, partial(load, device="cpu"), items), "127.0.0.1")
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listening]})
        self._thread.start()

    def ask(self, path: str, question: object = None, **headers: str) -> tuple[int, Any]:
        """Return status and content; a question that is not bytes becomes JSON."""
        status, content, _ = self.fetch(path, question, **headers)
        return status, json.loads(content)

    def fetch(self, path: str, question: object = None, **headers: str) -> tuple[int, bytes, Any]:
        body = question if isinstance(question, bytes) or question is None else json.dumps(question).encode()
        request = Request(f"{self.address}/{path}", body, {"Content-Type": "application/json", **headers})
        try:
            with urlopen(request, timeout=60) as answer:
                return answer.status, answer.read(), answer.headers
        except HTTPError as error:
            return error.code, error.read(), error.headers

    def counted(self, name: str) -> float:
        """Return a number of /metrics."""
        lines = self.fetch("metrics")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"recbole_bert4rec_{name}"))

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture(scope="module", name="files")
def files_of_two_models(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("served")
    for name in ("BERT4Rec", "SASRecPlus"):
        shutil.copy(trained_in(folder, model=name).file, folder / f"{name}.pth")
    (folder / "names").mkdir()
    (folder / "names" / "toy.item").write_text("\n".join(NAMES) + "\n")
    return Files(*(str(folder / name) for name in ("BERT4Rec.pth", "SASRecPlus.pth", "names/toy.item")))


@pytest.fixture(scope="module", name="service")
def service_of_one(files: Files) -> Iterator[Service]:
    started = Service(files.one, files.items)
    yield started
    started.stop()
