"""``info``: the content of a checkpoint."""

from __future__ import annotations

import argparse
import os

from recbole_bert4rec.cli.trained import add_checkpoint, open_model
from recbole_bert4rec.cli.words import nothing_changed
from recbole_bert4rec.options.table import OPTIONS, RECBOLES, SECTIONS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_checkpoint(parser)


def execute(options: argparse.Namespace, flags: dict[str, str]) -> None:
    """Print the content."""
    model = open_model(options)  # first: its message about exported folders needs no torch
    from recbole_bert4rec import checkpoints
    from recbole_bert4rec.core.growth import VECTORS
    from recbole_bert4rec.core.ranker import ITEM_DIGEST

    state = checkpoints.read(options.checkpoint)
    config, stored = state["config"], model.stored
    counted = int(state["item_counts"].sum())
    told = (VECTORS, ITEM_DIGEST)  # not learnt
    weights = sum(weight.numel() for name, weight in state["state_dict"].items() if name not in told)
    contents, cold = state["state_dict"].get(VECTORS), state.get("cold_items", {"tokens": []})["tokens"]
    memory = model.ranker.memory
    metrics = ", ".join(f"{name} {value:g}" for name, value in state["best_valid_result"].items())
    lines = {
        "file": f"{options.checkpoint}, {os.path.getsize(options.checkpoint) / 2**20:.1f} MiB, {state['format']}",
        "model": f"{config['model']}, objective {config['objective']}, {weights:,} weights",
        "trained on": f"{config['dataset']}: {len(state['item_tokens']) - 1:,} items, {counted:,} interactions",
        "epoch": f"{state['epoch']}, from 0",
        "validation": (metrics or "none") + (" without the memory" if memory else ""),
        "memory": f"weight {memory.weight:g}, {memory.transitions.nnz:,} entries" if memory else "none",
        "contents": "none"
        if contents is None
        else f"{contents.shape[1]} numbers an item; {len(cold):,} more items have such and no interaction",
        "columns": ", ".join(model.fields),
        "histories": "none" if stored is None else f"{len(stored):,} users, {len(stored.items):,} interactions",
        "filter_viewed": f"auto: {model.viewed.why}",
        "encoder": ", ".join(f"{name} {config.get(name)}" for name in SECTIONS["Encoder"]),
        "changed": ", ".join(
            f"{name} {config.get(name)}"
            for name, option in OPTIONS.items()
            if name not in SECTIONS["Encoder"] and name in config and option.default not in (RECBOLES, config[name])
        )
        or "nothing",
    }
    width = max(map(len, lines))
    print("\n".join(f"{name:<{width}}  {text}" for name, text in lines.items()))


left_behind = nothing_changed
