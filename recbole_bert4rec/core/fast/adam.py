"""Adam and AdamW of torch without the import of its compiler, which takes two seconds and has nothing to do here."""

from __future__ import annotations

import inspect

import torch
from torch import optim


class Eager(optim.Optimizer):
    """Methods of an optimizer as they are below torch's wrappers, each of which imports the compiler to disable it."""

    add_param_group = inspect.unwrap(optim.Optimizer.add_param_group)
    load_state_dict = inspect.unwrap(optim.Optimizer.load_state_dict)
    state_dict = inspect.unwrap(optim.Optimizer.state_dict)
    zero_grad = inspect.unwrap(optim.Optimizer.zero_grad)


class Adam(Eager, optim.Adam):
    """torch's Adam."""

    step = torch.no_grad()(inspect.unwrap(optim.Adam.step))


class AdamW(Eager, optim.AdamW):
    """torch's AdamW."""

    step = torch.no_grad()(inspect.unwrap(optim.AdamW.step))
