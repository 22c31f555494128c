"""A small log, the options of a small model, and a Ray that tests share, for whole programs."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.programs import ENVIRONMENT, ROWS

SMALL = {"epochs": "2", "MAX_ITEM_LIST_LENGTH": "8", "hidden_size": "16", "batch_sequences": "64"}
CLUSTER = """
import ray
ray.init(address="local", include_dashboard=False, log_to_driver=False, configure_logging=False)
print(ray.get_runtime_context().gcs_address, flush=True)
input()
"""


@pytest.fixture
def data(write_inter: Any) -> dict[str, str]:
    """Options that load the log, train two epochs and no more."""
    return {**write_inter(ROWS), **SMALL}


@pytest.fixture(scope="session")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Ray, which takes seconds to start; only programs of this session have its word."""
    word = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ |= word
    ENVIRONMENT.update(word)
    how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
    with subprocess.Popen([sys.executable, "-c", CLUSTER], cwd=tmp_path_factory.mktemp("ray"), **how) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip()
        cluster.communicate("\n")
    for name in word:
        del os.environ[name], ENVIRONMENT[name]
