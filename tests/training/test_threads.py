"""What several threads may do with one loaded model, and what they may not do at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from recbole.trainer import Trainer

from recbole_bert4rec import load, run
from recbole_bert4rec.plugin.callbacks import Callback
from recbole_bert4rec.system.errors import UserError
from tests.helpers.runs import arguments


@pytest.fixture
def often() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_threads_that_ask_one_model_get_the_answers_that_one_gets(options: dict[str, Any], often: None) -> None:
    result = run(**arguments(options, epochs=1))
    model = load(result.checkpoint, "cpu")
    histories = [[f"i{(start + step * k) % 23}" for k in range(6)] for start in range(4) for step in (1, 2, 3)]

    def ask(number: int) -> list[Any]:
        history = histories[number % len(histories)]
        table = model.explain(history, "i3").table
        top = model.recommend([history], k=5)
        return [table["influence"].to_numpy(), top["score"].to_numpy()]

    expected = [ask(number) for number in range(len(histories))]
    with ThreadPoolExecutor(6) as threads:
        for number, found in enumerate(threads.map(ask, range(60))):
            for one, other in zip(found, expected[number % len(histories)], strict=True):
                assert np.allclose(one, other, atol=1e-5)


class _Second(Callback):
    """Begins another run in another thread while one is under way."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked, self.refused = asked, 0

    def on_train_begin(self, trainer: Trainer) -> None:
        def begin() -> None:
            with pytest.raises(UserError):
                run(**self.asked)
            self.refused += 1

        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()


def test_a_second_run_at_once_is_refused_and_one_after_the_other_is_not(options: dict[str, Any]) -> None:
    asked = arguments(options, epochs=1)
    second = _Second(asked)
    first = run(**asked, callbacks=[second])
    assert second.refused == 1
    assert run(**asked).test_result == first.test_result
