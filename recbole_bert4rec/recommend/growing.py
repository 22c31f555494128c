"""New items in a checkpoint's entries, without training: by the items that they are like, or by their contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from recbole_bert4rec.core.growth import CONTENTS, FEATURE_VALUES, VECTORS, Neighbours, encoder_rows, rows_for
from recbole_bert4rec.core.memory import Memory
from recbole_bert4rec.core.ranker import ITEM_DIGEST, digest_of_items, entry_of
from recbole_bert4rec.system.constants import PADDING

COUNTS, WIDTH = f"{CONTENTS}counts", f"{CONTENTS}n_of_files"


def with_new_items(
    state: dict[str, Any], tokens: Sequence[str], beside: Neighbours, contents: Tensor | None = None
) -> dict[str, Any]:
    """Return the entries of a checkpoint that knows more items, which nothing was trained on.

    *Shape:* beside (P,) each, contents (C', D)
    """
    weights, (owners, known) = state["state_dict"], beside
    begin, many = len(state["item_tokens"]), len(tokens)
    source = torch.cat([torch.arange(begin), torch.full((many,), PADDING)])
    placed = begin + owners, known
    all_tokens = [*state["item_tokens"], *tokens]
    grown = {**weights, **encoder_rows(weights, source, placed), ITEM_DIGEST: digest_of_items(all_tokens)}
    for name, values in weights.items():
        if name.startswith(FEATURE_VALUES):
            grown[name] = torch.cat([values, values.new_zeros(many, values.shape[1])])
    if VECTORS in weights:
        for name in (VECTORS, COUNTS):
            *rows, mask = weights[name].split([begin, 1])
            told = rows[0].new_zeros(0, *rows[0].shape[1:]) if contents is None else contents
            if name == COUNTS:
                told = rows[0].new_zeros(len(told))  # nobody had them
            like = rows_for(rows[0].float(), source, placed)[begin : begin + many - len(told)].to(rows[0].dtype)
            grown[name] = torch.cat([*rows, like, told, mask])
    grown_state = {
        **state,
        "state_dict": grown,
        "item_tokens": all_tokens,
        "item_counts": torch.cat([state["item_counts"], state["item_counts"].new_zeros(many)]),
    }
    memory = state.get("other_parameter", {}).get("memory")
    if memory:
        old = Memory.from_state({name: np.asarray(value) for name, value in memory.items()}, begin)
        grown_state["other_parameter"] = {"memory": entry_of(_grown(old, many, owners.numpy(), known.numpy()))}
    return grown_state


def with_cold_items(state: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a checkpoint that knows the items, too, that stood in ``item_vectors`` alone."""
    cold = state.pop("cold_items", None)
    if cold is None:
        return state
    nobody = torch.empty(0, dtype=torch.int64)
    return with_new_items(state, cold["tokens"], (nobody, nobody), cold["vectors"])


def _grown(memory: Memory, many: int, owners: NDArray[np.int64], known: NDArray[np.int64]) -> Memory:
    """Let new items follow what their neighbours follow, and be followed by what follows these: the mean of each.

    *Shape:* owners (P,), known (P,)
    """
    n_items = memory.transitions.shape[0]
    shares = np.concatenate([np.ones(n_items), 1 / np.bincount(owners)[owners]])
    rows, columns = (np.concatenate([np.arange(n_items), more]) for more in (n_items + owners, known))
    spread = csr_array((shares, (rows, columns)), shape=(n_items + many, n_items))
    grown = csr_array(spread @ memory.transitions @ spread.T)
    grown.setdiag(0)  # no item follows itself
    grown.eliminate_zeros()
    grown.sort_indices()
    grown.data = grown.data.astype(np.float16).astype(np.float32)  # as a checkpoint has it
    return replace(memory, transitions=grown)
