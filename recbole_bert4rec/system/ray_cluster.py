"""Join a Ray cluster, or start Ray for this machine alone."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray._private import ray_constants
from ray._private.ray_logging import global_worker_stdstream_dispatcher as dispatcher

from recbole_bert4rec.system.errors import UserError


def start_ray(address: str | None, show: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Join a cluster, or start Ray for this machine alone: on the loopback address and without its dashboard.

    ``show`` gets the lines of all workers' output; else they are in Ray's files alone.
    """
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # the new output ignores `verbose`
    for name in ("ray.data", "ray.tune", "ray.train", "ray._private.authentication"):
        logging.getLogger(name).setLevel(logging.ERROR)
    how: dict[str, Any] = {"address": address}
    if address is None:
        # or Ray would replace the loopback address by the machine's and listen to the network
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        ray_constants.ENABLE_RAY_CLUSTER = False
        how = {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    at_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        if address not in (None, "auto"):  # Ray would try for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(**how, logging_level=logging.ERROR, log_to_driver=show is not None, configure_logging=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(
            f"--ray_address={address}: {' '.join(str(error).split())}; give auto on a machine of the cluster, or "
            "HOST:PORT of its head, or leave it out to start Ray here"
        ) from error
    if signal.getsignal(signal.SIGTERM) is not at_sigterm:  # Ray's handler exits without a word
        signal.signal(signal.SIGTERM, at_sigterm)
    if show is not None:  # in place of Ray's own, which adds names, and counts lines that are alike
        dispatcher.remove_handler("ray_print_logs")
        dispatcher.add_handler("ray_print_logs", show)


def check_workers(workers: int) -> bool:
    """Refuse more workers than the cluster has processors; return whether it has a GPU for each."""
    room = ray.cluster_resources()
    if workers > room.get("CPU", 0):
        raise UserError(f"--num_workers={workers} needs as many CPUs, but the cluster has {room.get('CPU', 0):g}")
    return bool(room.get("GPU", 0) >= workers)


def check_room(job: str, resources: Mapping[str, float]) -> None:
    """Refuse a job that no machine has room for, and leave the cluster: Ray would wait for ever."""
    for name, count in resources.items():
        room = max(node["Resources"].get(name, 0) for node in ray.nodes())
        if count > room:
            ray.shutdown()
            raise UserError(f"{job} needs {count:g} {name}s, but there are {room:g} on a machine")
