"""Write a trained model to a folder that is used without torch: its graph in ONNX, its items and its options."""

from __future__ import annotations

import copy
import json
import logging
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from recbole_bert4rec.core.ranker import Ranker
from recbole_bert4rec.recommend.onnx_backend import CATALOGUE, FORMAT, GRAPH, MEMORY, OPTIONS
from recbole_bert4rec.recommend.recommender import Recommender
from recbole_bert4rec.system.constants import NAMES_OF_COLUMNS, PADDING
from recbole_bert4rec.system.environment import need
from recbole_bert4rec.system.errors import UserError
from recbole_bert4rec.system.files import keep_made

OPSET = 20
"""Version of ONNX's operators."""
_OF_LOG = ("date_format", "timezone", "in_order", "separator", "encoding", "quote", "escape", "columns", "conversion")
_KEPT = ("model", "dataset", "objective", "exclude_seen", *NAMES_OF_COLUMNS, *_OF_LOG)
"""Options of the training that answers depend on."""


class Scoring(nn.Module):
    """Computes vectors and scores of padded histories with the ranker's parts; no shape depends on a value."""

    bias: Tensor

    def __init__(self, ranker: Ranker) -> None:
        super().__init__()
        self.ranker = ranker
        bias = ranker.ranking_bias.clone()
        bias[PADDING] = -torch.inf
        self.register_buffer("bias", bias)

    def forward(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Return vectors and scores of histories (B, L), which are padded with 0 on the right."""
        inputs = self.ranker.objective.ask(items, (items != PADDING).sum(1), trim=False)
        hidden = self.ranker.encoder(inputs.item_seq, two_sided=inputs.two_sided)
        read = torch.arange(hidden.shape[0], device=hidden.device), inputs.last
        vectors = self.ranker.encoder.output(hidden[read])
        return vectors, self.ranker.encoder.scores(vectors, self.bias)


def export(model: Recommender, folder: str | os.PathLike[str]) -> None:
    """Write a model to a new folder, whole or not at all."""
    need("export", "onnx", "onnxruntime", "onnxscript")
    folder, ranker = Path(folder), copy.deepcopy(model.ranker).cpu()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not an empty folder; name a new one")
    max_items = ranker.objective.max_length - ranker.objective.appended
    options = {
        "format": FORMAT,
        "config": {name: model.config.get(name) for name in _KEPT},
        "opset": OPSET,
        "max_items": max_items,
        "seen_bias": None if ranker.seen_bias is None else ranker.seen_bias.item(),
        "memory": ranker.memory is not None,
    }
    catalogue = {"ids": ["[PAD]", *model.items], "counts": model.counts.tolist()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        made = Path(temporary) / folder.name
        made.mkdir()
        _write_graph(Scoring(ranker), max_items, made / GRAPH)
        (made / OPTIONS).write_text(json.dumps(options, ensure_ascii=False, indent=1), "utf-8")
        (made / CATALOGUE).write_text(json.dumps(catalogue, ensure_ascii=False), "utf-8")
        if ranker.memory is not None:
            np.savez(made / MEMORY, **ranker.memory.state())
        keep_made(made, folder)


def _write_graph(scoring: Scoring, max_items: int, graph: Path) -> None:
    """Write the graph, for batches of any size and histories of up to ``max_items``, with its weights beside it."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns that torchvision is missing, which is not used
    shape = {0: torch.export.Dim("batch")}
    if max_items > 1:
        shape[1] = torch.export.Dim("length", min=1, max=max_items)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of torch's exporter about itself
        torch.onnx.export(
            scoring,
            (torch.ones(3, min(2, max_items), dtype=torch.int64),),
            f=graph,
            input_names=["items"],
            output_names=["vectors", "scores"],
            opset_version=OPSET,
            dynamo=True,
            dynamic_shapes=(shape,),
            verbose=False,
            external_data=True,
        )
