"""The model that the tests of this folder ask."""

from __future__ import annotations

import pytest

from recbole_bert4rec import Recommender, load
from tests.helpers.trained import Trained, trained_in


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_in(tmp_path_factory.mktemp("small"))


@pytest.fixture
def model(small: Trained) -> Recommender:
    return load(small.file, "cpu")
