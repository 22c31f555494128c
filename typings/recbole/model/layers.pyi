"""RecBole 1.2.1: parts of its models."""

from torch import nn

class ContextSeqEmbAbstractLayer(nn.Module):
    float_field_names: dict[str, list[str]]  # by "user" and "item"

    def __init__(self) -> None: ...
