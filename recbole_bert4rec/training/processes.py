"""One run in several processes that train together on one machine."""

from __future__ import annotations

import tempfile
from dataclasses import replace

import torch
from torch.multiprocessing.spawn import ProcessRaisedException, spawn

from recbole_bert4rec.environment import suppress_dependency_warnings
from recbole_bert4rec.errors import UserError
from recbole_bert4rec.training.inputs import resolve_inputs
from recbole_bert4rec.training.request import RunRequest
from recbole_bert4rec.training.run import run


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
    with tempfile.TemporaryDirectory() as folder:  # a log is made into an atomic file once, before there are processes
        resolve_inputs(request.model, request.dataset, request.config_files, request.options, request.resume, folder)
    try:
        spawn(_run_rank, args=(nproc, ip, port, request), nprocs=nproc)
    except ProcessRaisedException as error:
        _, found, message = str(error).partition("UserError: ")
        if not found:
            raise
        raise UserError(message.strip()) from error


def _run_rank(rank: int, nproc: int, ip: str, port: str, request: RunRequest) -> None:
    suppress_dependency_warnings()
    network = {"world_size": nproc, "ip": ip, "port": port, "nproc": nproc, "offset": 0, "local_rank": rank}
    run(replace(request, options={**request.options, **network}))
    torch.distributed.destroy_process_group()
