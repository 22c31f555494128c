"""RecBole 1.2.1: training, validation and test of a model."""

import os
from collections import OrderedDict
from collections.abc import Callable
from logging import Logger
from typing import Any

import torch
from recbole.config import Config
from recbole.data.dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from recbole.evaluator import Collector, Evaluator
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.utils import EvaluatorType
from torch import Tensor, nn, optim

DistributedDataParallel: Callable[..., nn.Module]
ensure_dir: Callable[[str], None]
tqdm: Callable[..., Any]

class AbstractTrainer:
    config: Config
    model: AbstractRecommender
    distributed_model: nn.Module  # where several processes train

    def __init__(self, config: Config, model: AbstractRecommender) -> None: ...
    def set_reduce_hook(self) -> None: ...
    def sync_grad_loss(self) -> Tensor | int: ...

class Trainer(AbstractTrainer):
    logger: Logger
    tensorboard: Any  # torch's SummaryWriter
    wandblogger: Any
    learner: str
    learning_rate: float
    epochs: int
    eval_step: int
    stopping_step: int
    clip_grad_norm: dict[str, Any] | None
    valid_metric: str
    valid_metric_bigger: bool
    test_batch_size: int
    gpu_available: bool
    device: torch.device
    checkpoint_dir: str
    enable_amp: bool
    enable_scaler: bool
    saved_model_file: str
    weight_decay: float
    start_epoch: int
    cur_step: int
    best_valid_score: float
    best_valid_result: OrderedDict[str, float] | dict[str, float] | None
    train_loss_dict: dict[int, float]
    optimizer: optim.Optimizer
    eval_type: EvaluatorType
    eval_collector: Collector
    evaluator: Evaluator
    item_tensor: Interaction | None
    tot_item_num: int | None

    def _build_optimizer(self, **kwargs: Any) -> optim.Optimizer: ...
    def _train_epoch(
        self,
        train_data: AbstractDataLoader,
        epoch_idx: int,
        loss_func: Callable[[Interaction], Tensor | tuple[Tensor, ...]] | None = None,
        show_progress: bool = False,
    ) -> float | tuple[float, ...] | None: ...  # None where there is no batch
    def _valid_epoch(
        self, valid_data: AbstractDataLoader, show_progress: bool = False
    ) -> tuple[float, dict[str, float]]: ...
    def _save_checkpoint(self, epoch: int, verbose: bool = True, **kwargs: Any) -> None: ...
    def resume_checkpoint(self, resume_file: str | os.PathLike[str]) -> None: ...
    def _check_nan(self, loss: Tensor) -> None: ...
    def _generate_train_loss_output(
        self, epoch_idx: int, s_time: float, e_time: float, losses: float | tuple[float, ...]
    ) -> str: ...
    def fit(
        self,
        train_data: AbstractDataLoader,
        valid_data: AbstractDataLoader | None = None,
        verbose: bool = True,
        saved: bool = True,
        show_progress: bool = False,
        callback_fn: Callable[[int, float], None] | None = None,
    ) -> tuple[float, dict[str, float] | None]: ...
    def _full_sort_batch_eval(self, batched_data: Any) -> tuple[Interaction, Any, Tensor, Tensor]: ...
    def _neg_sample_batch_eval(self, batched_data: Any) -> tuple[Interaction, Any, Tensor, Tensor]: ...
    def evaluate(
        self,
        eval_data: AbstractDataLoader,
        load_best_model: bool = True,
        model_file: str | None = None,
        show_progress: bool = False,
    ) -> OrderedDict[str, float] | None: ...  # None where there is no row
    def _map_reduce(self, result: dict[str, float], num_sample: int) -> dict[str, float]: ...
    def _spilt_predict(self, interaction: Interaction, batch_size: int) -> Tensor: ...

class PretrainTrainer(Trainer): ...
class TraditionalTrainer(Trainer): ...
