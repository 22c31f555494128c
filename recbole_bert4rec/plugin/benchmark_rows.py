"""Turn the rows of benchmark files, each with its own history, into one flat array of sequences."""

from __future__ import annotations

import torch
from recbole.data.dataset import Dataset
from torch import Tensor

from recbole_bert4rec.core.segments import segment_offsets
from recbole_bert4rec.core.sequences import Sequences
from recbole_bert4rec.system.constants import SEQUENCE, TARGET_POSITION


def flatten_rows(histories: Tensor, lengths: Tensor, targets: Tensor) -> tuple[Sequences, dict[str, Tensor]]:
    """Append to each history (R, L), padded on the right, its target; each row becomes a sequence.

    *Shape:* (R,) of each column, a row's sequence and the flat position of its target
    """
    rows = torch.arange(len(lengths))
    table = torch.cat([histories, torch.zeros_like(histories[:, :1])], 1)  # (R, L + 1)
    inside = torch.arange(table.shape[1]) <= lengths.unsqueeze(1)
    table[rows, lengths] = targets
    offsets = segment_offsets(lengths + 1)
    sequences = Sequences(table[inside].to(torch.int32), offsets)
    return sequences, {SEQUENCE: rows, TARGET_POSITION: offsets[1:] - 1}


def count_interactions(dataset: Dataset) -> int:
    """Count the interactions of a data set that is not split yet.

    A row of benchmark files is a history with its target, so only each user's longest row counts.
    """
    frame = dataset.inter_feat
    length = getattr(dataset, "item_list_length_field", None)
    if length is None or length not in frame:
        interactions: int = dataset.inter_num
        return interactions
    return int((frame.groupby(dataset.uid_field)[length].max() + 1).sum())
