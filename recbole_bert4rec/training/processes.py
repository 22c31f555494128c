"""One run in several processes that train together, on one machine or on several."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import takewhile
from multiprocessing.connection import Connection
from signal import SIGTERM
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, start_processes

from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.system import processes
from recbole_bert4rec.system.constants import SHORT
from recbole_bert4rec.system.environment import OF_A_PROCESS, suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted, handled
from recbole_bert4rec.training.inputs import opened_checkpoint, resolve, user_layers
from recbole_bert4rec.training.run import RunResult, run
from recbole_bert4rec.training.screen import shown

_SORTING = timedelta(days=1)
"""How long the other processes wait for the first one, which may have a large log to sort."""
_PATIENCE = 10
"""Seconds that the other processes have to end, once one has failed."""


@in_program()
def run_rank(arguments: Mapping[str, Any]) -> RunResult:
    """Run as one of the processes that train together, with the arguments of :func:`run`.

    The first one writes record and summary.
    """
    rank, local_rank, world_size, local_size, port = (int(os.environ[name]) for name in OF_A_PROCESS)
    ip = os.environ["MASTER_ADDR"]
    connected = dist.is_initialized()  # Ray Train has done it
    if not connected:
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, f"tcp://{ip}:{port}", rank=rank, world_size=world_size)
    of_process = {"world_size": world_size, "ip": ip, "port": str(port), "nproc": local_size}
    of_process |= {"offset": rank - local_rank, "local_rank": local_rank}
    try:
        resume = _by_first_process(rank, lambda: _prepared(arguments))
        return run(**{**arguments, "resume": resume, "options": {**(arguments.get("options") or {}), **of_process}})
    finally:
        if not connected:
            dist.destroy_process_group()


def _prepared(arguments: Mapping[str, Any]) -> str | None:
    """Convert a log, before the others read it; return the checkpoint to go on from, if any."""
    model, dataset = arguments.get("model"), arguments.get("dataset")
    layers = user_layers(*(arguments.get(name) for name in ("options", "config_files", "flags")))
    with shown(arguments.get("screen", SHORT)):
        opened = opened_checkpoint(arguments.get("resume"), model, dataset, layers)
        resolve(model, dataset, layers, opened)
    return opened and opened.path


def _by_first_process(rank: int, step: Callable[[], str | None]) -> str | None:
    """Run a step in the first process alone; return its result, or raise its error, in all of them."""
    answer: list[str | None] = [None, None]
    waiting = dist.new_group(timeout=_SORTING, backend="gloo")
    if rank == 0:
        try:
            answer[0] = step()
        except UserError as error:
            answer[1] = str(error)
    dist.broadcast_object_list(answer, group=waiting)
    if answer[1] is not None:
        raise UserError(answer[1])
    return answer[0]


def run_processes(arguments: Mapping[str, Any], nproc: int, ip: str, port: int | None) -> None:
    """Run in ``nproc`` processes of this machine."""
    receiver, sender = processes.context().Pipe(duplex=False)
    address = {"MASTER_ADDR": ip, "MASTER_PORT": str(_free_port(ip, port))}
    counts = {"WORLD_SIZE": str(nproc), "LOCAL_WORLD_SIZE": str(nproc)}
    try:
        with processes.starting():
            started = start_processes(
                _run_spawned,
                args=({**address, **counts}, arguments, sender),
                nprocs=nproc,
                join=False,
                start_method=processes.START_METHOD,
            )
        while not started.join(grace_period=_PATIENCE):
            pass
        if receiver.poll():  # another program has asked one of them to end, and they saved
            raise Interrupted(SIGTERM)
    except Interrupted as stop:
        for process in started.processes:
            process.terminate()
        for process in started.processes:
            process.join()
        stop.left_behind = receiver.recv() if receiver.poll() else ""
        raise
    except ProcessRaisedException as error:
        lines = reversed(str(error).rstrip().splitlines())  # a traceback, the error and its notes
        said = list(takewhile(lambda line: not line.startswith(" "), lines))
        raise RuntimeError("; ".join(reversed(said))) from error
    except ProcessExitedException as error:
        if receiver.poll():
            raise UserError(receiver.recv()) from None
        how = error.signal_name or f"exit code {error.exit_code}"
        raise UserError(
            f"process {error.error_index} of {nproc} was ended from outside ({how}); the same command with --resume "
            "goes on"
        ) from error


def _free_port(ip: str, port: int | None) -> int:
    """Return the port, or a free one if it is None."""
    try:
        with socket.create_server((ip, port or 0)) as listener:
            free: int = listener.getsockname()[1]
            return free
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--ip={ip} --port={port}: {' '.join(str(error).split())}; give another, or leave them out"
        ) from error


def _run_spawned(rank: int, environment: Mapping[str, str], arguments: Mapping[str, Any], sender: Connection) -> None:
    suppress_dependency_warnings()
    processes.end_with_parent()
    os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank))
    try:
        with handled((SIGTERM,)):
            run_rank(arguments)
    except Interrupted as stop:
        if rank == 0:
            sender.send(stop.left_behind)
    except UserError as error:
        sender.send(str(error))
        sys.exit(2)
