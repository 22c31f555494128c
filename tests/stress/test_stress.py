"""A short run of the stress, so that it goes on being one."""

from __future__ import annotations

import sys

import pytest

from tests.stress.__main__ import main

pytestmark = [pytest.mark.slow, pytest.mark.integration]


@pytest.mark.parametrize("words", ["kills --count=2", "flips --count=50", "pairs --count=1"])
def test_nothing_is_lost_or_mixed(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["stress", *words.split()])
    assert main() == 0
