"""The model that the tests of this folder ask."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.trained import Trained, trained


@pytest.fixture
def small(write_inter: Any) -> Trained:
    return trained(write_inter)
