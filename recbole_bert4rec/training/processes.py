"""One run in several processes that train together on one machine."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from signal import SIGTERM

import torch
from torch.multiprocessing.spawn import ProcessRaisedException, start_processes

from recbole_bert4rec.environment import suppress_dependency_warnings
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.interrupts import Interrupted, handled
from recbole_bert4rec.training.inputs import resolve_inputs
from recbole_bert4rec.training.logs import shown
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.training.run import resolved, run
from recbole_bert4rec.workers import end_with_parent


def run_processes(request: RunRequest, nproc: int, ip: str, port: str) -> None:
    """Run in ``nproc`` processes that train together; the first one writes record and summary.

    Args:
        request: what to run.
        nproc: number of processes.
        ip: where the first process listens for the others.
        port: where the first process listens for the others.

    Raises:
        UserError: something that the caller can mend.
    """
    request = resolved(request)
    with (
        shown(request.screen),
        tempfile.TemporaryDirectory() as folder,
    ):  # a log is made into an atomic file once, before there are processes
        resolve_inputs(
            request.model, request.dataset, request.config_files, request.options, request.checkpoint, folder
        )
    kept, theirs = get_context("spawn").Pipe(duplex=False)
    processes = start_processes(_run_rank, args=(nproc, ip, port, request, theirs), nprocs=nproc, join=False)
    try:
        while not processes.join():
            pass
    except Interrupted as stop:
        for process in processes.processes:
            process.terminate()
        for process in processes.processes:
            process.join()
        stop.kept = kept.recv() if kept.poll() else ""
        raise
    except ProcessRaisedException as error:
        _, found, message = str(error).partition("UserError: ")
        if not found:
            raise
        raise UserError(message.strip()) from error


def _run_rank(rank: int, nproc: int, ip: str, port: str, request: RunRequest, kept: Connection) -> None:
    suppress_dependency_warnings()
    end_with_parent()
    network = {"world_size": nproc, "ip": ip, "port": port, "nproc": nproc, "offset": 0, "local_rank": rank}
    try:
        with handled((SIGTERM,)):
            run(replace(request, options={**request.options, **network}))
    except Interrupted as stop:
        if rank == 0:
            kept.send(stop.kept)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
