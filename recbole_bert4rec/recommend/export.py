"""Writes a trained model to a folder that needs no torch: its graph in ONNX, its items and its options."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.recommend.onnx_backend import CATALOGUE, FORMAT, GRAPH, MEMORY, OPTIONS
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.constants import PADDING
from recbole_bert4rec.system.environment import need
from recbole_bert4rec.system.errors import UserError

OPSET = 20
"""Version of ONNX's operators."""
_DESCRIBED = ("model", "dataset", "objective")


class Scoring(nn.Module):
    """Computes vectors and scores of padded histories with the ranker's parts; no shape depends on a value.

    Attributes:
        max_items: the longest history that it takes.
        seen_bias: the learnt number; None if the option is off.
    """

    bias: Tensor

    def __init__(self, ranker: Ranker) -> None:
        super().__init__()
        self.ranker = ranker
        self.max_items = ranker.objective.max_length - ranker.objective.appended
        self.seen_bias = None if ranker.seen_bias is None else ranker.seen_bias.item()
        bias = ranker.ranking_bias.clone()
        bias[PADDING] = -torch.inf
        self.register_buffer("bias", bias)

    @property
    def inputs(self) -> list[str]:
        """Names of the arguments of :meth:`forward` that this model needs."""
        whole = self.seen_bias is not None and self.seen_bias < 0
        return ["items", *(["history"] * whole)]

    def forward(self, items: Tensor, history: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Encode and score; rows are padded with 0 on the right.

        *Shape:* items (B, L), history (B, S)
        """
        inputs = self.ranker.objective.ask(items, (items != PADDING).sum(1), trim=False)
        hidden = self.ranker.encoder(inputs.item_seq, two_sided=inputs.two_sided)
        read = torch.arange(hidden.shape[0], device=hidden.device), inputs.last
        vectors = self.ranker.encoder.output(hidden[read])
        scores = self.ranker.encoder.scores(vectors, self.bias)
        if self.seen_bias is not None:
            seen = items if history is None else history
            scores = scores + torch.zeros_like(scores).scatter(1, seen, self.seen_bias)
        return vectors, scores


def program_of(model: Recommender) -> torch.export.ExportedProgram:
    """Trace a model with ``torch.export``, for batches of any size and histories of any length."""
    scoring = Scoring(model.ranker)
    batch, length, whole = (torch.export.Dim(name) for name in ("batch", "length", "whole"))
    if scoring.max_items > 1:
        length = torch.export.Dim("length", min=1, max=scoring.max_items)
    ones = torch.ones(3, min(2, scoring.max_items), dtype=torch.int64)
    example = {"items": ones, "history": torch.ones(3, 5, dtype=torch.int64)}
    shapes = {"items": {0: batch, 1: length}, "history": {0: batch, 1: whole}}
    inputs = {name: example[name] for name in scoring.inputs}
    with torch.no_grad():
        return torch.export.export(
            scoring, (), inputs, dynamic_shapes={name: shapes[name] for name in inputs}, strict=False
        )


def export(model: Recommender, folder: str | os.PathLike[str]) -> None:
    """Write a model to a folder, whole or not at all."""
    need("export", "onnx", "onnxruntime", "onnxscript")
    folder = Path(folder)
    check_folder("folder", folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write_graph(program_of(model), temporary / GRAPH)
        counts = model.counts.tolist()
        _write_json(temporary / CATALOGUE, {"ids": ["[PAD]", *model.items], "counts": counts})
        if model.ranker.memory is not None:
            np.savez(temporary / MEMORY, **model.ranker.memory.state())
        _write_json(temporary / OPTIONS, _options(model))
        temporary.chmod(0o755)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder(flag: str, folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that has something in it."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{flag}={folder} is there and not empty; name a new folder")


def _options(model: Recommender) -> dict[str, Any]:
    scoring = Scoring(model.ranker)
    return {
        "format": FORMAT,
        **{name: model.config.get(name) for name in _DESCRIBED},
        "opset": OPSET,
        "inputs": scoring.inputs,
        "max_items": scoring.max_items,
        "fields": list(model.fields),
        "dates": list(model.dates),
        "seen_bias": scoring.seen_bias,
        "memory": model.ranker.memory is not None,
        "exclude_seen": bool(model.config["exclude_seen"]),
    }


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1 if path.name == OPTIONS else None), "utf-8")


def _write_graph(program: torch.export.ExportedProgram, graph: Path) -> None:
    """Write the graph, its weights beside it."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it misses torchvision, which has nothing to do here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's exporter about itself
        torch.onnx.export(
            program,
            f=graph,
            output_names=["vectors", "scores"],
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
            external_data=True,
        )
