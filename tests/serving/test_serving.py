"""The service over real HTTP: answers are the model's, mistakes are refused, a new checkpoint comes without a gap."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from recbole_bert4rec import Recommender, UserError, load
from recbole_bert4rec.cli.main import main
from recbole_bert4rec.recommend.export import export
from recbole_bert4rec.recommend.ids import Items
from tests.helpers.extras import needs_onnx
from tests.helpers.programs import wait_for
from tests.helpers.service import Files, Service, files_of_two_models, service_of_one  # noqa: F401

from recbole_bert4rec.serving import app, batching  # isort: skip
from recbole_bert4rec.serving.answering import FollowedCheckpoint, ServedModel  # isort: skip
from recbole_bert4rec.serving.batching import Batcher  # isort: skip

HISTORIES = [["i3", "i4", "i5"], ["i9"], [], ["i1", "nobody", "i2", "i7", "i8", "i20", "i1"]]


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
    alone = [service.ask("recommend", {"histories": [history], **options})[1] for history in HISTORIES]
    assert items_of(answer) == [items_of(one)[0] for one in alone]


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


def test_a_long_question_is_answered_in_pieces_as_whole(service: Service) -> None:
    histories = [[f"i{(3 * i + j) % 26}" for j in range(i % 7 * 60)] for i in range(100)]
    before = service.counted("batch_questions_sum")
    status, answer = service.ask("recommend", {"histories": histories, "k": 5})
    assert status == 200
    assert service.counted("batch_questions_sum") - before > 6
    for place in (0, 41, 99):
        alone = service.ask("recommend", {"histories": [histories[place]], "k": 5})[1]["answers"][0]
        assert [one["item"] for one in alone["items"]] == items_of(answer)[place]


BAD: list[tuple[str, bytes | None, int, str]] = [
    ("recommend", b"{", 422, "body"),
    ("recommend", b'{"history": [[]]}', 422, "histories"),
    ("recommend", b'{"histories": [[]], "filter_veiwed": true}', 422, "filter_veiwed"),
    ("recommend", b'{"histories": [[]], "k": 1001}', 422, '"k"'),
    ("recommend", b'{"histories": [[]], "k": true}', 422, '"k"'),
    ("recommend", rb'{"histories": [["\ud800"]]}', 422, "histories"),
    ("recommend", rb'{"\ud800": 1}', 422, "body"),
    ("recommend", b'{"histories": [["%s"]]}' % (b"x" * 257), 422, "256"),
    ("recommend", b'{"histories": [%s[]]}' % (b"[]," * 100), 422, "100"),
    ("recommend", b'{"histories": [[%s1]]}' % (b"1," * 10_000), 422, "10000"),
    ("recommend", b'{"histories": [%s]}' % b",".join([b"[%s1]" % (b"1," * 1000)] * 100), 422, "100,100"),
    ("recommend", b'{"histories": [%s[]], "k": 101}' % (b"[]," * 99), 422, "10,000"),
    ("recommend", b'{"histories": [["i1"]], "items_to_recommend": ["x"]}', 422, "'x'"),
    ("recommend", b'{"histories": [["i1"]], "items_to_recommend": []}', 422, "nothing"),
    ("recommend", b'{"histories": [[%s]]}' % b",".join([b"null"] * 200_000), 422, "histories"),
    ("recommend", b"{%s}" % b",".join(b'"%d":1' % i for i in range(90_000)), 422, "extra"),
    ("recommend", b'{"histories": [[]], "%s": 1}' % (b"x" * 900_000), 422, '"xxx'),
    ("recommend", b"\xff\xfe{", 400, "body"),
    ("recommend", b"[" * 100_000, 400, "body"),
    ("similar", b'{"items": ["nobody"]}', 422, "'nobody'"),
    ("similar", b'{"items": [%s1], "k": 1000}' % (b"1," * 10), 422, "10,000"),
    ("explain", b'{"history": ["nobody"], "item": "i1"}', 422, "item"),
    ("explain", b'{"history": ["i1"], "item": "nobody"}', 422, "'nobody'"),
    ("search?text=a&most=1000", None, 422, "most"),
    ("docs", None, 404, ""),
    ("page.js/../app.py", None, 404, ""),
]


@pytest.mark.parametrize(("path", "body", "status", "named"), BAD, ids=[f"{b[0]}-{(b[1] or b'')[:40]!r}" for b in BAD])
def test_a_malformed_request_is_refused_with_the_reason(
    path: str, body: bytes | None, status: int, named: str, service: Service
) -> None:
    found, content, _ = service.fetch(path, body)
    assert (found, named in content.decode()) == (status, True)
    assert len(content) < 1000, "the question is not sent back"


def sent(service: Service, head: str, body: bytes = b"") -> socket.socket:
    client = socket.create_connection(service.place, timeout=10)
    with suppress(ConnectionError):  # it may be cut off
        client.sendall(f"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n".encode() + body)
    return client


def test_a_body_that_is_too_long_or_slow_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (65_536, b" " * 65_536) for _ in range(17))
    for head, body in ((f"Content-Length: {app._LARGEST_BODY + 1}", b""), ("Transfer-Encoding: chunked", chunks)):
        with sent(service, head, body) as client:
            assert client.recv(12) == b"HTTP/1.1 413"
    monkeypatch.setattr(app, "_SECONDS_OF_CLIENT", 0.3)
    with sent(service, "Content-Length: 100000", b"{") as client:
        assert client.recv(12) == b"HTTP/1.1 408"
    assert service.ask("recommend", {"histories": [["i1"] * 9_000] * 11})[0] == 200


def test_large_bodies_wait_for_a_time_behind_slow_ones_and_small_ones_do_not(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_SECONDS_OF_CLIENT", 1.0)
    with ExitStack() as slow:
        clients = []
        for _ in range(3):  # the second four get the turns of the first, and the third none in their time
            clients += [slow.enter_context(sent(service, "Content-Length: 100000", b"{")) for _ in range(4)]
            time.sleep(0.2)
        assert service.ask("recommend", {"histories": [["i1"]]})[0] == 200
        answers = [client.recv(4096) for client in clients]
    assert [answer[9:12] for answer in answers[:4] + answers[8:]] == [b"408"] * 4 + [b"503"] * 4
    assert all(b"retry-after: 1" in answer for answer in answers[8:])
    assert service.ask("recommend", {"histories": [["i1"] * 9_000] * 11})[0] == 200


def test_a_connection_that_asks_nothing_is_closed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_SECONDS_OF_CLIENT", 0.5)
    for begin in (b"", b"GET /health HTTP/1.1\r\n"):
        with socket.create_connection(service.place, timeout=10) as silent:
            for byte in begin:
                silent.sendall(bytes([byte]))
            assert silent.recv(100) == b""
    connection = HTTPConnection(*service.place)
    for _ in range(3):  # each answer gives it time again
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        time.sleep(0.3)
    connection.close()


def test_requests_that_come_together_are_answered_as_alone(service: Service, model: Recommender) -> None:
    wanted = lists_of(model, 4)
    batches, questions = service.counted("batch_questions_count"), service.counted("batch_questions_sum")

    def ask(number: int) -> bool:
        if number % 5 == 4:  # agrees with the others' form, and fails alone
            item, status = ("nobody", 422) if number % 2 else ("i1", 200)
            return service.ask("similar", {"items": [item]})[0] == status
        place = number % len(HISTORIES)
        return items_of(service.ask("recommend", {"histories": [HISTORIES[place]], "k": 4})[1]) == [wanted[place]]

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(80)))
    assert service.counted("batch_questions_sum") - questions == 80
    assert service.counted("batch_questions_count") - batches < 80


class Held:
    """Answers with the negative numbers, once it is let; the first call tells that it has begun."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.calls: list[list[int]] = []

    def __call__(self, parts: Sequence[tuple[int]], broken: object = None) -> list[int]:
        self.begun.set()
        self.go.wait(10)
        self.calls.append([number for (number,) in parts])
        if broken:
            raise RuntimeError("broken")
        return [-number for (number,) in parts]


def ask_while_held(questions: Sequence[Sequence[int]], *arguments: str, gone: int = 0) -> tuple[Any, list[Any]]:
    """Ask while a first question, 1, is being answered; return the calls, and the answers to the others."""
    held = Held()

    async def scene() -> list[Any]:
        batcher = Batcher()
        running = asyncio.create_task(batcher.run())

        def ask(numbers: Sequence[int]) -> asyncio.Task[list[int]]:
            async def is_gone() -> bool:
                return numbers[0] == gone

            parts = [(number,) for number in numbers]
            return asyncio.create_task(batcher.ask((held, *arguments), parts, is_gone))

        first = ask([1])
        while not held.begun.is_set():
            await asyncio.sleep(0.01)
        rest = [ask(numbers) for numbers in questions]
        await asyncio.sleep(0.01)
        held.go.set()
        _, *found = await asyncio.wait_for(asyncio.gather(first, *rest, return_exceptions=True), 10)
        running.cancel()
        return found

    found = asyncio.run(scene())
    return held.calls, found


def test_light_questions_are_one_call_and_pass_heavy_ones_that_take_turns() -> None:
    heavy = [list(range(100, 140)), list(range(200, 240)), list(range(300, 340))]
    calls, found = ask_while_held([*heavy, [2], [3, 4]], gone=200)
    assert calls[1] == [2, 3, 4, *range(100, 116)]
    pieces = [(200, 216), (300, 316), (116, 132), (316, 332), (132, 140), (332, 340)]
    assert calls[2:] == [list(range(*piece)) for piece in pieces]
    assert getattr(found.pop(1), "status_code", None) == 499
    assert found == [[-number for number in numbers] for numbers in (heavy[0], heavy[2], [2], [3, 4])]


def test_questions_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST_WAITING", 5)
    monkeypatch.setattr(batching, "MOST_TOGETHER", 3)
    calls, found = ask_while_held([[number] for number in range(2, 8)])
    assert calls == [[1], [2, 3, 4], [5, 6]]
    assert (found[5].status_code, found[5].headers) == (503, {"Retry-After": "1"})


def test_nobody_waits_for_ever_when_answering_breaks() -> None:
    assert [str(one) for one in ask_while_held([[2], [3]], "broken")[1]] == ["broken", "broken"]


def test_a_new_checkpoint_takes_over_under_load_and_a_damaged_one_does_not(files: Files, tmp_path: Path) -> None:
    path = Path(shutil.copy(files.one, tmp_path / "m.pth"))
    service = Service(str(path))
    wanted = [lists_of(load(file, "cpu"), 4) for file in (files.one, files.other)]
    end, found = threading.Event(), list[int]()

    def ask() -> None:
        while not end.is_set():
            status, answer = service.ask("recommend", {"histories": HISTORIES, "k": 4})
            found.append(wanted.index(items_of(answer)) if status == 200 else -1)

    try:
        with ThreadPoolExecutor(2) as pool:
            pool.submit(ask)
            path.write_bytes(b"half of a checkpoint")
            wait_for(lambda: service.ask("health")[1]["failure"])
            shutil.copy(files.other, tmp_path / "new.pth")
            os.replace(tmp_path / "new.pth", path)
            wait_for(lambda: service.ask("health")[1]["loads"] == 2 and found[-1] == 1)
            end.set()
        assert set(found) == {0, 1}
        assert service.ask("health")[1]["failure"] is None
        assert service.counted("reloads_total") >= 2
    finally:
        end.set()
        service.stop()


@needs_onnx
@pytest.mark.slow
def test_an_exported_folder_is_served(model: Recommender) -> None:
    export(model, "exported")
    service = Service("exported")
    try:
        assert items_of(service.ask("recommend", {"histories": HISTORIES, "k": 4})[1]) == lists_of(model, 4)
        assert service.ask("explain", {"history": ["i1"], "item": "i2"})[0] == 200
        status, answer = service.ask("similar", {"items": ["i1"]})
        assert (status, "checkpoint" in answer["detail"]) == (422, True)
    finally:
        service.stop()


def test_a_file_or_folder_is_loaded_again_whenever_it_has_changed_and_not_tried_twice(model: Recommender) -> None:
    Path("exported").mkdir()
    for path in (Path("m.pth"), Path("exported")):
        tries, file = list[str](), path / "items.json" if path.is_dir() else path

        def opened(name: str, file: Path = file, tries: list[str] = tries) -> Recommender:
            tries.append(name)
            if file.read_text() == "half":  # as if it were being copied
                raise UserError("damaged")
            return model

        file.write_text("whole")
        followed = FollowedCheckpoint(str(path), opened, None)
        for text, n_tries, failure in (("half", 2, "damaged"), ("whole again", 3, None)):
            file.write_text(text)
            for _ in range(3):
                followed.update()
            assert (len(tries), followed.about["failure"]) == (n_tries, failure)
        path.rename(f"old {path}")
        followed.update()
        assert len(tries) == 3, "it is being replaced"


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


def test_search_has_a_naive_twin(model: Recommender) -> None:
    items = [f"{i}a{i % 7}" for i in range(60)]
    names = ["" if i % 9 == 0 else f"Name {i % 13} Of {i}" for i in range(56)]
    names += ["ΟΔΟΣ", "İstanbul", "Straße", "Ｆｕｌｌ"]
    model.catalogue = Items(["[PAD]", *items])
    served = ServedModel(model, dict(zip(items, names, strict=True)))
    folded = list(zip(map(str.casefold, items), map(str.casefold, names), strict=True))
    tests = (
        lambda text, item, name: item == text,
        lambda text, item, name: name.startswith(text),
        lambda text, item, name: text in name,
        lambda text, item, name: text in item,
    )
    for text in ("1", "name 1", "OF 3", "5a5", "none", "a", *names[-4:]):
        places = dict.fromkeys(p for test in tests for p, one in enumerate(folded) if test(text.casefold(), *one))
        assert [one["item"] for one in served.find(f" {text} ", 12)] == [items[place] for place in places][:12]


def test_names_come_from_the_file_beside_the_checkpoint_or_from_recbole(files: Files, tmp_path: Path) -> None:
    checkpoint = Path(shutil.copy(files.one, tmp_path / "m.pth"))

    def name_of(item: str, dataset: str = "toy", items: str | None = None, **options: str) -> str | None:
        loaded = load(checkpoint, "cpu")
        loaded.config = {**loaded.config, "dataset": dataset, **options}
        if dataset == "ml-100k":
            loaded.catalogue = Items(["[PAD]", "1", "2"])
        return FollowedCheckpoint(str(checkpoint), lambda _: loaded, items)._names.get(item)

    assert name_of("i3") is None
    assert name_of("1", "ml-100k") == "Toy Story"
    assert name_of("1", "ml-100k", conversion="digest of a log of one's own") is None
    file = Path(shutil.copy(files.items, tmp_path / "toy.item"))
    assert name_of("i3") == "Thing 3"
    file.write_text("item_id:token\ttitle:token_seq\nother\tAnother\n")
    assert name_of("i3") is None
    for text, named in (
        ("item_id:token\ttitle:token_seq\nother\tAnother\n", "'other'"),
        ("id:token\ttitle:token\n1\tx\n", "'item_id'"),
        ("item_id:token\tyear:float\n1\t2\n", ""),
        ("item_id:token\ttitle:token\n1\t2\t3\n", "line 2"),
        ("", ""),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=rf"toy\.item.*{named}"):
            name_of("i3", items=str(file))


def test_nothing_is_loaded_from_elsewhere_and_other_names_are_refused(service: Service) -> None:
    for path in ("", "page.js", "page.css", "health"):
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
    assert service.counted('requests_total{path="/health",status="200"}') > 0


def test_what_the_service_cannot_do_is_one_line(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for flag in (f"--port={taken.getsockname()[1]}", "--port=70000"):
            assert main(["serve", f"--checkpoint={files.one}", "--device=cpu", flag]) == 2
    assert all(line.startswith("error: ") for line in capsys.readouterr().err.splitlines())
