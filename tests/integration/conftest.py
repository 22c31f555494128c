"""A small log and the options of a small model, for whole programs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.programs import ROWS

SMALL = {"epochs": "2", "MAX_ITEM_LIST_LENGTH": "8", "hidden_size": "16", "batch_sequences": "64"}


@pytest.fixture
def data(write_inter: Any) -> dict[str, str]:
    """Options that load the log, train two epochs and no more."""
    return {**write_inter(ROWS), **SMALL}
