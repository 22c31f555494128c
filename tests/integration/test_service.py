"""The service as a process of its own, without RecBole, and its page in a real browser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.helpers.chromium import CHROMIUM, Browser
from tests.helpers.programs import BLOCKED, ENVIRONMENT, wait_for
from tests.helpers.service import Files, Service, files_of_two_models, service_of_one  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.integration]
COUNT = "document.querySelectorAll('{}').length"
READY = f"{COUNT.format('#list > li')} >= 2"


def click(place: str, word: str) -> str:
    """A script that clicks the first button of a word at a place."""
    return f"[...document.querySelectorAll('{place} button')].find((one) => one.textContent == '{word}').click()"


def health(address: str) -> Any:
    with urlopen(f"{address}/health", timeout=60) as answer:
        return json.load(answer)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_process_without_recbole_answers_reloads_and_ends_whoever_still_sends(
    end: signal.Signals,
    files: Files,
    tmp_path: Path,
) -> None:
    shutil.copy(files.one, tmp_path / "m.pth")
    # the rest of what training needs is not in the Dockerfile either
    blocked = f"{BLOCKED}\nBlock.names = ('recbole', 'ray', 'yaml', 'matplotlib', 'hyperopt')"
    program = f"{blocked}\nfrom recbole_bert4rec.cli.main import main\nsys.exit(main())"
    flags = ["serve", f"--checkpoint={tmp_path / 'm.pth'}", "--device=cpu", "--port=0"]
    command = [sys.executable, "-c", program, *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        try:
            assert process.stderr is not None
            address = process.stderr.readline().split()[-1]
            assert health(address)["loads"] == 1
            shutil.copy(files.other, tmp_path / "new.pth")
            os.replace(tmp_path / "new.pth", tmp_path / "m.pth")
            wait_for(lambda: health(address)["loads"] == 2)
            with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))) as half:
                half.sendall(b"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
                process.send_signal(end)
                process.wait(30)
            assert process.returncode == 128 + end
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    with Browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(1300, "light"), (420, "dark")])
def test_the_page_puts_a_history_together_and_shows_what_comes_next_and_why(
    width: int, scheme: str, browser: Browser, service: Service
) -> None:
    browser.messages.clear()
    browser.open(f"{service.address}/", width, 1000, scheme)
    browser.wait(READY)
    assert browser.run("document.querySelector('#about').textContent") == "BERT4Rec.pth: BERT4Rec, 26 items"
    browser.run("document.querySelector('#text').value = 'thing 3'")
    browser.run("document.querySelector('#text').dispatchEvent(new Event('input'))")
    browser.wait(f"{COUNT.format('#found li')} == 1")
    browser.run(click("#found", "add"))
    browser.wait(f"{COUNT.format('#history li')} == 1 && {READY} && location.hash == '#i3'")
    browser.wait(f"{COUNT.format('#list > li')} == 10")
    browser.wait("[...document.querySelectorAll('#list button')].some((one) => one.textContent == 'why')")
    wanted = service.ask("recommend", {"histories": [["i3"]], "k": 10})[1]["answers"][0]["items"]
    shown = "[...document.querySelector('#list').children].map((line) => line.dataset.item)"
    assert browser.run(shown) == [one["item"] for one in wanted]
    browser.run(click("#list", "why"))
    browser.wait(f"{COUNT.format('.why .bar')} == 1")
    browser.run(click("#list", "similar"))
    browser.wait(f"{COUNT.format('.below li')} == 10")
    assert browser.run("document.documentElement.scrollWidth") <= width
    back = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back.strip("rgb()").split(","))) < 200) == (scheme == "dark")
    browser.run(click("#list", "add"))
    browser.wait(f"{COUNT.format('#history li')} == 2")
    browser.run(click("#history li:nth-child(2)", "earlier"))
    browser.wait("location.hash.endsWith(',i3')")
    assert browser.run("document.querySelector('#mistake').hidden") is True
    assert not [one for one in browser.messages if one["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
    asked = [
        one["params"]["request"]["url"] for one in browser.messages if one["method"] == "Network.requestWillBeSent"
    ]
    assert all(url.startswith(service.address) for url in asked if url != "about:blank")


def test_names_are_text_and_mistakes_are_said(browser: Browser, service: Service) -> None:
    browser.open(f"{service.address}/#i24,nobody")
    browser.wait(f"{COUNT.format('#history li')} == 2 && {COUNT.format('#list li')} > 2")
    assert "<img src=x onerror=alert(1)>" in browser.run("document.querySelector('#history').innerText")
    assert "1 of the history unknown here" in browser.run("document.querySelector('#viewed').innerText")
    browser.open(f"{service.address}/#i3,{'x' * 200},%E0%A4%A")
    browser.wait(f"{COUNT.format('#history li')} == 3 && {COUNT.format('#list li')} > 2")
    assert browser.run("document.querySelector('#mistake').hidden") is True
    browser.run("fetch = () => Promise.reject(new Error('the service is away'))")
    browser.run(click("#history", "remove"))
    browser.wait("document.querySelector('#mistake').innerText == 'the service is away'")
