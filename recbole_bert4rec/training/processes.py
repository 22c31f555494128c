"""One run in several processes that train together, on one machine or on several."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.connection import Connection
from signal import SIGTERM
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, start_processes

from recbole_bert4rec.plugin.hooks import in_program
from recbole_bert4rec.system import processes
from recbole_bert4rec.system.environment import suppress_dependency_warnings
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.interrupts import Interrupted, handled
from recbole_bert4rec.training.inputs import resolve_inputs
from recbole_bert4rec.training.logs import shown
from recbole_bert4rec.training.request import RunRequest, RunResult
from recbole_bert4rec.training.run import resolved, run

_SORTING = timedelta(days=1)
"""How long the other processes wait for the first one, which may have a large log to sort."""
_PATIENCE = 10
"""Seconds that the other processes have to end, once one has failed."""


@dataclass(frozen=True)
class TrainingProcess:
    """Describes one of the processes that train together.

    Attributes:
        rank: its number among all; the first one (0) writes the files.
        local_rank: its number on its machine, which is also that of its GPU.
        world_size: number of all processes.
        local_world_size: number of those on its machine.
        ip, port: the address at which the first one listens for the others.
    """

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    ip: str
    port: str

    @classmethod
    def of_environment(cls) -> TrainingProcess | None:
        """Return this process as torchrun or Ray Train describes it; None if it is alone."""
        try:
            rank, local_rank, world_size, local_world_size = (
                int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
            )
            process = cls(
                rank, local_rank, world_size, local_world_size, os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
            )
        except (KeyError, ValueError):
            return None
        return process if process.world_size > 1 else None

    @property
    def options(self) -> dict[str, Any]:
        """Return RecBole's options with the same content."""
        options = {"world_size": self.world_size, "ip": self.ip, "port": self.port, "nproc": self.local_world_size}
        return {**options, "offset": self.rank - self.local_rank, "local_rank": self.local_rank}


@in_program()
def run_rank(request: RunRequest, process: TrainingProcess) -> RunResult:
    """Run as one of the processes that train together; the first one writes record and summary."""
    connected = dist.is_initialized()  # Ray Train has done it
    if not connected:
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        address = f"tcp://{process.ip}:{process.port}"
        dist.init_process_group(backend, address, rank=process.rank, world_size=process.world_size)
    try:
        request = replace(request, resume=_of_the_first(process, lambda: _prepared(request)))
        return run(replace(request, options={**request.options, **process.options}))
    finally:
        if not connected:
            dist.destroy_process_group()


def _prepared(request: RunRequest) -> str | None:
    """Convert a log, before the others read it; return the checkpoint to go on from, if any."""
    request = resolved(request)
    with shown(request.screen):
        resolve_inputs(request)
    return None if request.checkpoint is None else request.checkpoint.path


def _of_the_first(process: TrainingProcess, step: Callable[[], str | None]) -> str | None:
    """Run a step in the first process alone; return its result, or raise its error, in all of them."""
    answer: list[str | None] = [None, None]
    waiting = dist.new_group(timeout=_SORTING, backend="gloo")
    if process.rank == 0:
        try:
            answer[0] = step()
        except UserError as error:
            answer[1] = str(error)
    dist.broadcast_object_list(answer, group=waiting)
    if answer[1] is not None:
        raise UserError(answer[1])
    return answer[0]


def run_processes(request: RunRequest, nproc: int, ip: str, port: int | None) -> None:
    """Run in ``nproc`` processes of this machine."""
    receiver, sender = processes.CONTEXT.Pipe(duplex=False)
    address = (nproc, ip, str(_free_port(ip, port)))
    arguments, method = (*address, request, sender), processes.CONTEXT.get_start_method()
    started = start_processes(_run_spawned, args=arguments, nprocs=nproc, join=False, start_method=method)
    try:
        while not started.join(grace_period=_PATIENCE):
            pass
    except Interrupted as stop:
        for process in started.processes:
            process.terminate()
        for process in started.processes:
            process.join()
        stop.left_behind = receiver.recv() if receiver.poll() else ""
        raise
    except ProcessExitedException as error:
        how = error.signal_name or f"exit code {error.exit_code}"
        raise UserError(
            f"process {error.error_index} of {nproc} was ended from outside ({how}); the same command with --resume "
            "goes on"
        ) from error
    except ProcessRaisedException as error:
        match = re.search(r"^recbole_bert4rec\.[\w.]+Error: (.*)", str(error), re.DOTALL | re.MULTILINE)
        if match is None:
            raise
        raise UserError(match[1].strip()) from error


def _free_port(ip: str, port: int | None) -> int:
    """Return the port, or a free one if it is None."""
    with socket.socket() as listener:
        # a run that has just ended keeps its port for a minute, and yet it can be listened to
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ip, port or 0))
        except (OSError, OverflowError) as error:
            raise UserError(
                f"--ip={ip} --port={port}: {' '.join(str(error).split())}; give another, or leave them out"
            ) from error
        free: int = listener.getsockname()[1]
        return free


def _run_spawned(rank: int, nproc: int, ip: str, port: str, request: RunRequest, sender: Connection) -> None:
    suppress_dependency_warnings()
    processes.end_with_parent()
    try:
        with handled((SIGTERM,)):
            run_rank(request, TrainingProcess(rank, rank, nproc, nproc, ip, port))
    except Interrupted as stop:
        if rank == 0:
            sender.send(stop.left_behind)
