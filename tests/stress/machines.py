"""A Ray cluster of several machines on one: each is a network namespace with an address and a raylet of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_BRIDGE, _INNER, _NET = "rb-bridge", "rb-in", "10.77.0"


class Machines:
    """Machines 1 to ``count``, the first of which is Ray's head, with a processor each. It takes root and iproute2.

    Args:
        count: of machines.
        folder: for what they print.
    """

    def __init__(self, count: int, folder: Path) -> None:
        self.numbers, self._folder = range(1, count + 1), folder
        self.address = f"{_NET}.1:6379"

    def __enter__(self) -> Machines:
        self._remove()
        try:
            _ip("link", "add", _BRIDGE, "type", "bridge")
            _ip("link", "set", _BRIDGE, "up")
            for number in self.numbers:
                space, outer = f"rb-{number}", f"rb-out-{number}"
                _ip("netns", "add", space)
                _ip("link", "add", outer, "type", "veth", "peer", "name", _INNER, "netns", space)
                _ip("link", "set", outer, "master", _BRIDGE, "up")
                _ip("-n", space, "address", "add", f"{_NET}.{number}/24", "dev", _INNER)
                _ip("-n", space, "link", "set", _INNER, "up")
                _ip("-n", space, "link", "set", "lo", "up")
                self.start(number)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def start(self, number: int) -> None:
        """Start Ray on a machine."""
        where = ["--head", "--port=6379", "--include-dashboard=false"] if number == 1 else [f"--address={self.address}"]
        sizes = ["--num-cpus=1", "--object-store-memory=200000000", "--disable-usage-stats"]
        program = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", *where, *sizes]
        # gloo looks for its address under the name of this computer; Ray's workers have a low priority otherwise
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": _INNER, "RAY_worker_niceness": "0"}
        with open(self._folder / f"ray-{number}.log", "a") as log:
            command = self.inside(number, *program, f"--node-ip-address={_NET}.{number}")
            subprocess.run(command, check=True, stdout=log, stderr=log, env=environment)

    def inside(self, number: int, *command: str) -> list[str]:
        """Return a command that runs on a machine."""
        return ["ip", "netns", "exec", f"rb-{number}", *command]

    def kill(self, number: int) -> None:
        """Kill all that runs on a machine, at once."""
        listed = subprocess.run(["ip", "netns", "pids", f"rb-{number}"], check=False, capture_output=True, text=True)
        for process in listed.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)

    def _remove(self) -> None:
        for number in self.numbers:
            self.kill(number)
            for words in (["link", "delete", f"rb-out-{number}"], ["netns", "delete", f"rb-{number}"]):
                subprocess.run(["ip", *words], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", _BRIDGE], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
