"""The service over real HTTP: answers are the model's, mistakes are refused, a new checkpoint comes without a gap."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_bert4rec import Recommender, UserError, load
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.cli.serve import items_beside
from tests.helpers.programs import wait_for
from tests.helpers.service import Files, Service, files_of_two_models  # noqa: F401

pytest.importorskip("fastapi", reason="the service needs `[serve]`")
uvicorn = pytest.importorskip("uvicorn", reason="the service needs `[serve]`")
pytest.importorskip("prometheus_client", reason="the service needs `[serve]`")

from recbole_bert4rec.serving import admission, batching, connections, reload  # noqa: E402
from recbole_bert4rec.serving.answering import Answerer  # noqa: E402
from recbole_bert4rec.serving.batching import Batcher, BusyError  # noqa: E402
from recbole_bert4rec.serving.connections import Connection, most_connections  # noqa: E402
from recbole_bert4rec.serving.items import ItemFile, ItemSearch  # noqa: E402
from recbole_bert4rec.serving.questions import LARGEST_BODY  # noqa: E402
from recbole_bert4rec.serving.reload import ReloadingFile  # noqa: E402

HISTORIES = [["i3", "i4", "i5"], ["i9"], [], ["i1", "nobody", "i2", "i7", "i8", "i20", "i1"]]


@pytest.fixture(scope="module")
def service(files: Files) -> Iterator[Service]:
    started = Service(files.one, files.other, items=files.items)
    yield started
    started.stop()


@pytest.fixture
def model(files: Files) -> Recommender:
    return load(files.one, "cpu")


def lists_of(model: Recommender, k: int, **options: Any) -> list[list[str]]:
    table = model.recommend(model.read(HISTORIES, warn=False), k=k, **options)
    return [table.loc[table["user_id"] == user, "item_id"].tolist() for user in range(len(HISTORIES))]


def items_of(answer: Any) -> list[list[str]]:
    return [[shown["item"] for shown in one["items"]] for one in answer["answers"]]


@pytest.mark.parametrize(
    "options",
    [
        {"k": 4},
        {"k": 26, "filter_viewed": False},
        {"k": 3, "exclude": ["i3", "i4"]},
        {"k": 5, "items_to_recommend": [f"i{i}" for i in range(12)]},
    ],
    ids=str,
)
def test_recommendations_are_those_of_the_model(options: Any, service: Service, model: Recommender) -> None:
    status, answer = service.ask("recommend", {"histories": HISTORIES, **options})
    assert status == 200
    assert items_of(answer) == lists_of(model, **options)
    assert [one["unknown"] for one in answer["answers"]] == [0, 0, 0, 1]
    assert items_of(answer) == [
        *(items_of(service.ask("recommend", {"histories": [history], **options})[1])[0] for history in HISTORIES)
    ]


def test_similar_items_and_reasons_are_those_of_the_model(service: Service, model: Recommender) -> None:
    _, answer = service.ask("similar", {"items": ["i3", "i9", "i3"], "k": 4})
    table = model.similar_items(["i3", "i9"], k=4)
    wanted = [table.loc[table["target_item_id"] == item, "item_id"].tolist() for item in ("i3", "i9", "i3")]
    assert [[shown["item"] for shown in one] for one in answer["answers"]] == wanted
    _, answer = service.ask("explain", {"history": HISTORIES[0], "item": "i8"})
    found = model.explain(HISTORIES[0], "i8")
    assert answer["score"] == pytest.approx(found.score, abs=1e-4)
    assert [one["item"] for one in answer["reasons"]] == found.table["item"].tolist()
    influences = [one["influence"] for one in answer["reasons"]]
    assert influences == pytest.approx(found.table["influence"].tolist(), abs=1e-4)


def test_the_compared_checkpoint_answers_when_it_is_asked(service: Service, files: Files) -> None:
    _, answer = service.ask("recommend", {"histories": HISTORIES, "k": 4, "compared": True})
    assert items_of(answer) == lists_of(load(files.other, "cpu"), 4) != lists_of(load(files.one, "cpu"), 4)
    _, health = service.ask("health")
    assert [one["file"] for one in health["checkpoints"]] == ["BERT4Rec.pth", "SASRecPlus.pth"]


REFUSED: list[tuple[bytes, str]] = [
    (b"{", "body"),
    (b'{"history": [[]]}', "histories"),
    (b'{"histories": [[]], "filter_veiwed": true}', "filter_viewed"),
    (b'{"histories": [[]], "k": 1001}', "body.k: "),
    (b'{"histories": [[]], "k": true}', "body.k: "),
    (b'{"histories": [[1.5]]}', "body.histories.0.0: "),
    (rb'{"histories": [["\ud800"]]}', "body.histories.0.0: "),
    (rb'{"\ud800": 1}', "body: "),
    (b'{"histories": [["%s"]]}' % (b"x" * 257), "256"),
    (b'{"histories": [%s[]]}' % (b"[]," * 100), "100"),
    (b'{"histories": [[%s1]]}' % (b"1," * 10_000), "10000"),
    (b'{"histories": [%s]}' % b",".join([b"[%s1]" % (b"1," * 1000)] * 100), "100,100"),
    (b'{"histories": [%s[]], "k": 101}' % (b"[]," * 99), "10,100"),
    (b'{"histories": [["i1"]], "items_to_recommend": ["x"]}', "'x'"),
    (b'{"histories": [["i1"]], "items_to_recommend": []}', "nothing"),
    (b'{"histories": [%s]}' % b",".join([b"1.5"] * 200_000), "body.histories.0 "),
    (b'{"histories": [[%s]]}' % b",".join([b"1.5"] * 200_000), "body.histories.0.0: "),
]
"""Bodies of ``recommend`` that are JSON and no question, and what is named."""
BAD: list[tuple[str, bytes | None, int, str]] = [
    *(("recommend", body, 422, named) for body, named in REFUSED),
    ("recommend", b"\xff\xfe{", 400, "body"),
    ("recommend", b"[" * 100_000, 400, "body"),
    ("recommend", b'{"histories": [[%s]]}' % (b"9" * 5000), 400, "body"),
    ("similar", b'{"items": ["nobody"]}', 422, "'nobody'"),
    ("similar", b'{"items": [%s1], "k": 1000}' % (b"1," * 10), 422, "11,000"),
    ("explain", b'{"history": ["nobody"], "item": "i1"}', 422, "item"),
    ("explain", b'{"history": ["i1"], "item": "nobody"}', 422, "'nobody'"),
    ("search?text=a&most=1000", None, 422, "query.most"),
    ("docs", None, 404, ""),
]


@pytest.mark.parametrize(("path", "body", "status", "named"), BAD, ids=[f"{b[0]}-{(b[1] or b'')[:40]!r}" for b in BAD])
def test_a_malformed_request_is_refused_with_the_reason(
    path: str, body: bytes | None, status: int, named: str, service: Service
) -> None:
    found, content, _ = service.fetch(path, body)
    assert found == status
    assert named in content.decode()
    assert len(content) < 300, "of many mistakes the first is named"


def test_a_body_that_is_too_long_is_refused_before_it_is_sent_or_when_it_becomes_so(service: Service) -> None:
    pieces = (b" " * 65_536 for _ in range(17))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    for length, body in ((f"Content-Length: {LARGEST_BODY + 1}", b""), ("Transfer-Encoding: chunked", chunks)):
        client = socket.create_connection(service.place, timeout=60)
        client.sendall(f"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}\r\n\r\n".encode())
        with suppress(ConnectionError):  # it is cut off
            client.sendall(body)
            assert client.recv(12) == b"HTTP/1.1 413"
        client.close()
    assert service.counted('requests_total{path="/recommend",status="413"}') >= 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5) | st.just("i3"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)
KEYS = ("histories", "k", "filter_viewed", "exclude", "items", "history", "item", "compared")


@settings(max_examples=40, deadline=None)
@given(
    path=st.sampled_from(["recommend", "similar", "explain"]),
    body=st.binary(max_size=40) | st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5) | VALUES,
)
def test_whatever_is_asked_is_answered_or_refused(path: str, body: object, service: Service) -> None:
    assert service.fetch(path, body if body is not None else b"null")[0] in (200, 400, 422)


def test_requests_that_come_together_are_answered_as_alone(service: Service, model: Recommender) -> None:
    wanted = lists_of(model, 4)
    batches, questions = service.counted("batch_questions_count"), service.counted("batch_questions_sum")

    def ask(number: int) -> bool:
        if number % 5 == 4:  # agrees with the others' form, and fails alone
            return service.ask("similar", {"items": ["nobody" if number % 2 else "i1"]})[0] == (
                422 if number % 2 else 200
            )
        place = number % len(HISTORIES)
        return items_of(service.ask("recommend", {"histories": [HISTORIES[place]], "k": 4})[1]) == [wanted[place]]

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(80)))
    assert service.counted("batch_questions_sum") - questions == 80
    assert service.counted("batch_questions_count") - batches < 80


class Asked(NamedTuple):
    """A question to a batcher."""

    number: int
    work: float = 1.0
    agrees: int = 0

    def agree_in(self) -> int:
        return self.agrees


class Held:
    """Answers with the negative number, once it is let; the first question tells that it has begun."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, questions: Sequence[Asked]) -> list[int | Exception]:
        self.begun.set()
        self.go.wait(10)
        self.batches.append([one.number for one in questions])
        return [UserError(str(one.number)) if one.number == 3 else -one.number for one in questions]


def ask_while_held(questions: Sequence[Asked], cancelled: Sequence[int] = ()) -> tuple[list[list[int]], list[Any]]:
    """Ask while a first question, 1, is being answered; return the batches, and the answers to the others."""
    held = Held()

    async def scene() -> list[Any]:
        batcher: Batcher[Asked, int] = Batcher(held, lambda _: None)
        running = asyncio.create_task(batcher.run())
        first = asyncio.create_task(batcher.ask(Asked(1)))
        while not held.begun.is_set():
            await asyncio.sleep(0.01)
        rest = [asyncio.create_task(batcher.ask(one)) for one in questions]
        await asyncio.sleep(0.01)
        for place in cancelled:
            rest[place].cancel()
        held.go.set()
        _, *found = await asyncio.gather(first, *rest, return_exceptions=True)
        running.cancel()
        return found

    found = asyncio.run(scene())
    return held.batches, found


def test_questions_that_wait_are_one_batch_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST", 4)
    monkeypatch.setattr(batching, "_WAITING", 10)
    batches, found = ask_while_held([Asked(number) for number in range(2, 13)], cancelled=[2])
    assert batches == [[1], [2, 3, 5, 6], [7, 8, 9, 10], [11]]  # nobody waits for 4 any more
    assert [found[0], *found[3:10]] == [-2, *range(-5, -12, -1)]
    assert isinstance(found[1], UserError)
    assert isinstance(found[2], asyncio.CancelledError)
    assert isinstance(found[10], BusyError)


def test_a_light_question_passes_heavy_ones_and_a_batch_is_bounded_by_its_work() -> None:
    heavy = [Asked(number, 40_000.0) for number in range(10, 15)]
    batches, found = ask_while_held([*heavy, Asked(2), Asked(4)])
    assert batches == [[1], [10, 2, 4], [11], [12], [13], [14]]
    assert found == [-10, -11, -12, -13, -14, -2, -4]


def test_questions_that_agree_in_nothing_are_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_WORK", 3 * batching._WORK_OF_CALL)
    batches, _ = ask_while_held([Asked(number, agrees=number) for number in range(10, 16)])
    assert batches == [[1], [10, 11, 12], [13, 14, 15]]
    batches, _ = ask_while_held([Asked(number) for number in range(10, 16)])
    assert batches == [[1], [10, 11, 12, 13, 14, 15]]


def test_a_heavy_question_has_its_turn_before_lighter_ones_that_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST", 2)
    batches, _ = ask_while_held([Asked(10, 1e6), *(Asked(number, number) for number in range(20, 24))])
    assert batches == [[1], [10], [20, 21], [22, 23]]


def test_who_would_wait_too_long_is_told_when_to_come_again() -> None:
    seconds = 12e6 * 2e-6
    _, found = ask_while_held([Asked(10, 12e6), Asked(11, 12e6), Asked(2)])
    assert isinstance(found[2], BusyError)
    assert found[2].seconds == 2 * seconds


def test_nobody_waits_for_ever_when_answering_breaks() -> None:
    def answer(questions: Sequence[Asked]) -> list[int | Exception]:
        raise RuntimeError("broken")

    async def scene() -> list[Any]:
        batcher: Batcher[Asked, int] = Batcher(answer, lambda _: None)
        running = asyncio.create_task(batcher.run())
        asking = asyncio.gather(batcher.ask(Asked(1)), batcher.ask(Asked(2)), return_exceptions=True)
        found = await asyncio.wait_for(asking, 10)
        running.cancel()
        return found

    assert [str(one) for one in asyncio.run(scene())] == ["broken", "broken"]


def sent(service: Service, question: object, path: str = "recommend", cut: int = 0) -> socket.socket:
    """Send a question, but for the last bytes, without waiting for its answer."""
    body = json.dumps(question).encode()
    head = f"POST /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    client = socket.create_connection(service.place, timeout=10)
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[: len(body) - cut])
    return client


def ended(client: socket.socket) -> bool:
    """Read to the end; False where the other side does not close."""
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Have answers wait; yields whether one has begun, and what lets them go on."""
    begun, go, answer = threading.Event(), threading.Event(), Answerer.__call__

    def wait(self: Answerer, questions: Any) -> Any:
        begun.set()
        go.wait(20)
        return answer(self, questions)

    monkeypatch.setattr(Answerer, "__call__", wait)
    yield begun, go
    go.set()


def test_the_question_of_a_client_that_has_gone_is_not_answered(
    service: Service, held: tuple[threading.Event, threading.Event]
) -> None:
    begun, go = held
    before = service.counted("batch_questions_sum")
    first = sent(service, {"histories": [["i1"]]})
    assert begun.wait(10)
    for client in [sent(service, {"histories": [["i2"]]}) for _ in range(5)]:
        client.close()
    wait_for(lambda: service.counted('requests_total{path="/recommend",status="499"}') >= 5)
    go.set()
    assert first.recv(12) == b"HTTP/1.1 200"
    assert service.ask("recommend", {"histories": [["i3"]]})[0] == 200
    assert service.counted("batch_questions_sum") - before == 2


def test_questions_of_too_many_bytes_are_refused_until_others_are_answered(
    service: Service, held: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = held
    monkeypatch.setattr(admission, "_MOST_BYTES", 1000)
    first, announced = (sent(service, {"histories": [["i1"] * 100]}), HTTPConnection(service.address[7:]))
    announced.putrequest("POST", "/recommend")
    announced.putheader("Content-Length", "900")
    announced.endheaders()  # holds nothing before it has sent something
    assert begun.wait(10)
    status, _, headers = service.fetch("recommend", {"histories": [["i1"] * 100]})
    assert (status, headers["Retry-After"]) == (503, "1")
    assert service.ask("health")[0] == 200
    go.set()
    assert first.recv(12) == b"HTTP/1.1 200"
    assert service.ask("recommend", {"histories": [["i1"] * 100]})[0] == 200


def test_small_questions_are_answered_where_large_ones_are_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_MOST_BYTES", 1000)
    monkeypatch.setattr(admission, "_SMALL", 100)
    assert service.ask("recommend", {"histories": [["i1"] * 200]})[0] == 503
    assert service.ask("recommend", {"histories": [["i1"] * 100]})[0] == 200
    half, deadline = sent(service, {"histories": [["i1"] * 120]}, cut=1), time.monotonic() + 10
    while service.ask("recommend", {"histories": [["i1"] * 20]})[0] == 200:  # until those bytes have come
        assert time.monotonic() < deadline
        half.close()  # it is refused if it comes while the answer before still counts
        half = sent(service, {"histories": [["i1"] * 120]}, cut=1)
    assert service.ask("recommend", {"histories": [["i1"]]})[0] == 200
    half.close()


def test_an_answer_of_many_bytes_arrives_whole(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    question = {"histories": [[f"i{i}"] for i in range(20)], "k": 20}
    whole = service.fetch("recommend", question)[1]
    monkeypatch.setattr(admission, "_PIECE", 1000)
    assert len(whole) > 10_000
    assert service.fetch("recommend", question)[1] == whole


def test_a_client_that_sends_or_reads_nothing_is_left(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SECONDS", 0.2)
    idle, half = (socket.create_connection(service.place, timeout=10) for _ in range(2))
    half.sendall(b"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
    assert ended(idle)
    assert ended(half)


def test_a_client_that_does_not_read_its_answer_is_left(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_SECONDS", 0.5)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(10)
    client.connect(service.place)
    with suppress(OSError):  # many answers that nobody reads fill all buffers between
        for _ in range(100_000):
            client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert ended(client)
    assert service.ask("health")[0] == 200


def test_a_new_client_takes_the_place_of_the_longest_idle_one(
    service: Service, held: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = held
    monkeypatch.setattr(Connection, "most", 3)
    idle = [socket.create_connection(service.place, timeout=10) for _ in range(3)]
    busy = [sent(service, {"histories": [["i1"]]})]
    assert begun.wait(10)
    assert ended(idle[0])
    busy += [sent(service, {"histories": [["i1"]]}) for _ in range(2)]
    assert all(map(ended, idle[1:]))
    time.sleep(0.2)
    with socket.create_connection(service.place, timeout=10) as refused:
        assert refused.recv(100).startswith(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1")
    go.set()
    assert [client.recv(12) for client in busy] == [b"HTTP/1.1 200"] * 3


def test_there_are_no_more_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("resource")
    limits = [(256, 512)]
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(connections.resource, "setrlimit", lambda _, pair: limits.append(pair))
    assert most_connections() == 256
    assert limits[-1] == (512, 512)
    limits.append((1024, 1 << 20))
    assert most_connections() == 1000
    limits.append((64, 64))
    assert most_connections() == 32


def test_a_new_checkpoint_takes_over_under_load_and_a_damaged_one_does_not(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "m.pth"
    shutil.copy(files.one, path)
    service = Service(str(path))
    wanted = [lists_of(load(file, "cpu"), 4) for file in (files.one, files.other)]
    end, found = threading.Event(), list[int]()

    def ask() -> None:
        while not end.is_set():
            status, answer = service.ask("recommend", {"histories": HISTORIES, "k": 4})
            found.append(wanted.index(items_of(answer)) if status == 200 else -1)

    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(4):
                pool.submit(ask)
            path.write_bytes(b"half of a checkpoint")
            wait_for(lambda: service.counted('reloads_total{result="failed"}'))
            shutil.copy(files.other, tmp_path / "new.pth")
            os.replace(tmp_path / "new.pth", path)
            wait_for(lambda: service.counted('reloads_total{result="done"}'))
            time.sleep(0.3)
            end.set()
        assert set(found) == {0, 1}
        assert service.ask("recommend", {"histories": HISTORIES, "k": 4})[1]["answers"]
        assert service.ask("health")[1]["checkpoints"][0]["loads"] == 2
        assert service.ask("recommend", {"histories": [[]], "compared": True})[0] == 422
    finally:
        end.set()
        service.stop()


def test_items_are_found_by_id_and_name_and_have_names(service: Service) -> None:
    def found(text: str) -> list[str]:
        return [shown["item"] for shown in service.ask(f"search?text={text}")[1]["items"]]

    assert found("I3")[0] == "i3"
    assert sorted(found("thing%202")) == ["i2", "i20", "i21", "i22", "i23"]
    assert found("onerror") == ["i24"]
    assert found("%00%ff") == []
    _, answer = service.ask("recommend", {"histories": [[]], "k": 26})
    shown = {one["item"]: one for one in answer["answers"][0]["items"]}
    assert shown["i3"]["name"] == "Thing 3"
    assert "name" not in shown["i25"]


@pytest.mark.parametrize("name", ["ΟΔΟΣ", "İstanbul", "Straße", "Ｆｕｌｌ"])
def test_an_item_is_found_by_its_own_name_in_any_script(name: str) -> None:
    assert ItemSearch(["1", "2"], [name, "other"]).find(f" {name} ", 5) == ["1"]


def test_search_has_a_naive_twin() -> None:
    items = [f"{i}a{i % 7}" for i in range(60)]
    names = ["" if i % 9 == 0 else f"Name {i % 13} Of {i}" for i in range(60)]
    lowered = list(zip(map(str.lower, items), map(str.lower, names), strict=True))
    tests = (
        lambda text, item, name: item == text,
        lambda text, item, name: name.startswith(text),
        lambda text, item, name: text in name,
        lambda text, item, name: text in item,
    )
    for text in ("1", "name 1", "OF 3", "5a5", "none", "a"):
        places = dict.fromkeys(place for test in tests for place, one in enumerate(lowered) if test(text.lower(), *one))
        assert ItemSearch(items, names).find(text, 12) == [items[place] for place in places][:12]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("id:token\ttitle:token\n1\tx\n", "'item_id'"),
        ("item_id:token\tyear:float\n1\t2\n", ""),
        ("item_id:token\ttitle:token\n1\t2\t3\n", "line 2"),
        ("item_id:token\ttitle:token\ttitle:token\n1\t2\t3\n", "'title'"),
        ("", ""),
        (None, ""),
    ],
)
def test_an_item_file_that_cannot_be_used_is_refused(text: str | None, named: str) -> None:
    if text is not None:
        Path("x.item").write_text(text)
    with pytest.raises(UserError, match=rf"x\.item.*{named}"):
        ItemFile("x.item", "item_id")


def test_nothing_is_loaded_from_elsewhere_and_other_names_are_refused(service: Service) -> None:
    for path in ("", "page.js", "page.css"):
        status, content, headers = service.fetch(path)
        assert status == 200
        assert b"//" not in content.replace(b"// ", b"")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert b"innerHTML" not in service.fetch("page.js")[1]
    assert service.fetch("health", Host="evil.example")[0] == 400
    assert set(service.ask("openapi.json")[1]["paths"]) == {
        *("/recommend", "/similar", "/explain", "/search", "/health", "/metrics")
    }
    assert service.counted('requests_total{path="/page.js",status="200"}') > 0


def test_what_the_service_cannot_do_is_one_line(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for flag in (f"--port={taken.getsockname()[1]}", "--port=70000", f"--compare={files.items}"):
            assert main(["serve", f"--checkpoint={files.one}", "--device=cpu", flag]) == 2
    assert all(line.startswith("error: ") for line in capsys.readouterr().err.splitlines())


def test_a_body_without_its_type_is_refused_with_the_header_that_is_missing(service: Service) -> None:
    status, answer = service.ask("recommend", {"histories": [["i1"]]}, **{"Content-Type": "text/plain"})
    assert status == 422
    assert "Content-Type" in str(answer)


def test_what_could_not_be_loaded_anew_is_known_until_it_can_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "_SECONDS", 0.0)
    file, tries = tmp_path / "m.pth", []
    file.write_text("1")
    followed = ReloadingFile(str(file), lambda: tries.append(1) or int(file.read_text()))
    file.write_text("broken")
    for _ in range(3):
        followed.update()
    assert (followed.current, followed.loads, len(tries)) == (1, 1, 2)
    assert "broken" in str(followed.failure)
    file.unlink()
    followed.reload_asked = True
    followed.update()
    assert "broken" not in str(followed.failure)
    file.write_text("22")
    followed.update()
    assert (followed.current, followed.loads, followed.failure) == (22, 2, None)


@pytest.mark.parametrize("error", [OSError("no file is free"), MemoryError("no room"), UserError("cannot be read")])
def test_what_failed_for_a_passing_reason_is_tried_again(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "_SECONDS", 0.0)
    file, failures, tries = tmp_path / "m.pth", [error] * 3, []
    file.write_text("1")

    def make() -> str:
        tries.append(1)
        if file.read_text() == "22" and failures:
            raise failures.pop() from OSError("no file is free")
        return file.read_text()

    said: list[bool] = []
    followed = ReloadingFile(str(file), make, said.append)
    file.write_text("22")
    for _ in range(3):
        followed.update()
        assert followed.failure == str(error)
    followed.update()
    assert (followed.current, followed.failure, said) == ("22", None, [False, True])
    followed.update()
    assert len(tries) == 5


def test_names_come_from_the_item_file_beside_the_checkpoint(files: Files, tmp_path: Path) -> None:
    checkpoint = shutil.copy(files.one, tmp_path / "m.pth")
    model = load(checkpoint, "cpu")
    assert items_beside(str(checkpoint), model) is None
    file = Path(shutil.copy(files.items, tmp_path / "toy.item"))
    names = items_beside(str(checkpoint), model)
    assert names is not None
    assert names.show("i3")["name"] == "Thing 3"
    file.write_text("item_id:token\ttitle:token_seq\nother\tAnother\n")
    assert items_beside(str(checkpoint), model) is None


def test_the_items_of_ml_100k_have_their_names_without_a_flag(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(files.one, "cpu")
    monkeypatch.setitem(model.config, "dataset", "ml-100k")
    monkeypatch.setattr(model, "check_known", lambda *_: None)
    names = items_beside(files.one, model)
    assert names is not None
    assert names.show("1")["name"] == "Toy Story"
