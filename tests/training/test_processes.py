"""The port at which the processes of a run meet."""

from __future__ import annotations

import socket

import pytest

from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.training.processes import _free_port


def test_the_port_of_a_run_that_has_just_ended_can_be_had_at_once_and_one_that_is_listened_to_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UserError, match=f"--port={port}"):
            _free_port("127.0.0.1", port)
        with socket.create_connection(("127.0.0.1", port)) as client:
            served, _ = listener.accept()
            served.close()  # who closes first waits, and keeps the port for a minute
            assert client.recv(1) == b""
    with socket.socket() as another, pytest.raises(OSError, match="already in use"):
        another.bind(("127.0.0.1", port))
    assert _free_port("127.0.0.1", port) == port
