"""The training data loader: windows of the users' sequences in batches of similar length."""

from __future__ import annotations

from collections.abc import Iterator
from logging import getLogger

import torch
from recbole.config import Config
from recbole.data.dataloader.abstract_dataloader import AbstractDataLoader
from recbole.data.interaction import Interaction
from recbole.utils import EvaluatorType, set_color
from torch.utils.data import DataLoader

from recbole_bert4rec.core.batching import (
    LengthGroupedBatches,
    epoch_generator,
    last_windows,
    random_windows,
    sliding_windows,
)
from recbole_bert4rec.core.objectives import OBJECTIVES
from recbole_bert4rec.options.auto import settle
from recbole_bert4rec.options.checks import mistakes_between
from recbole_bert4rec.options.kinds import AUTO
from recbole_bert4rec.options.user_models import is_ours
from recbole_bert4rec.plugin.config import refuse
from recbole_bert4rec.plugin.dataset import BERT4RecDataset
from recbole_bert4rec.plugin.distributed import rank_of
from recbole_bert4rec.system.constants import FOR_THE_USER
from recbole_bert4rec.system.errors import UserError


class WindowDataLoader(AbstractDataLoader):
    """Yield batches of sequences (user_id, item_id_list, item_length), trimmed to the longest of the batch.

    Batches and windows depend on the seed and the epoch alone. Each iteration is the next epoch; :meth:`set_epoch`
    chooses one. RecBole's own attributes (``dataset``, ``generator``, ``sampler``, ``shuffle``, ``update_config``)
    remain usable.
    """

    batch_sampler: LengthGroupedBatches
    _dataset: BERT4RecDataset

    def __init__(self, config: Config, dataset: BERT4RecDataset, sampler: object, shuffle: bool = True) -> None:
        if not isinstance(dataset, BERT4RecDataset):
            raise UserError(
                f"{config['model']} is trained on whole sequences, which {type(dataset).__name__} does not have; "
                "derive it from recbole_bert4rec.plugin.dataset.BERT4RecDataset"
            )
        if config["eval_type"] == EvaluatorType.RANKING and max(config["topk"]) >= dataset.item_num:
            raise UserError(
                f"topk {config['topk']} is more than the {dataset.item_num - 1} items of the catalogue; give a smaller "
                "--topk"
            )
        _settle(config, dataset)
        self.config = config
        self.shuffle = shuffle
        self._dataset = dataset
        self._sampler = sampler
        self.is_sequential = True
        self.epoch = 0
        extra = self._extra_items()
        self.width: int = config["MAX_ITEM_LIST_LENGTH"] + extra
        slices = dataset.slices()
        long_enough = slices[2] > extra
        if not long_enough.any():
            raise UserError(f"no training sequence of [{dataset.dataset_name}] has more than {extra} item")
        self.users, self.begin, self.length = (values[long_enough] for values in slices)
        self._cut_windows()
        self.generator = torch.Generator().manual_seed(config["seed"])
        world_size = 1 if config["single_spec"] else config["world_size"]
        items, sequences = self._batch_sizes()
        lengths = self.length.clamp(max=self.width)
        batches = LengthGroupedBatches(lengths, items, config["seed"], shuffle, rank_of(config), world_size, sequences)
        self._windows = last_windows(self.begin, self.length, self.width)
        DataLoader.__init__(
            self,
            list(range(len(self.users))),  # type: ignore[arg-type]  # a list is data, too
            batch_sampler=batches,
            collate_fn=self.collate_fn,
            num_workers=config["worker"],
            generator=self.generator,
        )
        getLogger().info(
            set_color("[Batches]: ", "pink")
            + f"{len(self.users)} sequences of up to {self.width} items in {len(batches)} batches an epoch, "
            f"{batches.padding_share():.1%} of their positions padding"
        )
        if world_size > 1:
            self.sampler.set_epoch = self.set_epoch  # RecBole's trainer calls it there

    def update_config(self, config: Config) -> None:
        """Take the configuration that RecBole gives to saved loaders."""
        _settle(config, self._dataset)
        self.config = config
        self.batch_sampler.resize(*self._batch_sizes())

    def _extra_items(self) -> int:
        """Return how many items a window has beyond those that the model reads."""
        return OBJECTIVES[self.config["objective"]].extra

    def _cut_windows(self) -> None:
        """Cut the windows that stay the same in all epochs, and repeat them."""
        if self.config["window"] == "sliding":
            step = max(1, int(self.config["prop_sliding_window"] * self.config["MAX_ITEM_LIST_LENGTH"]))
            owner, self.begin, self.length = sliding_windows(self.begin, self.length, self.width, step)
            self.users = self.users[owner]
        copies = self.config["dupe_factor"]
        self.users, self.begin, self.length = (
            values.repeat_interleave(copies) for values in (self.users, self.begin, self.length)
        )

    def _batch_sizes(self) -> tuple[int, int | None]:
        """Return the number of items in a batch, and that of sequences if they are counted instead."""
        return self.config["train_batch_size"], self.config["batch_sequences"]

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration yield the batches and windows of ``epoch``."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[Interaction]:
        self.batch_sampler.epoch = self.epoch
        if self.config["window"] == "random":
            generator = epoch_generator(self.config["seed"], self.epoch)
            self._windows = random_windows(self.begin, self.length, self.width, generator)
        self.epoch += 1
        return super().__iter__()

    def collate_fn(self, index: list[int]) -> Interaction:
        """Cut out the windows of the chosen sequences."""
        begin, length = self._windows[0][index], self._windows[1][index]
        dataset, width = self._dataset, int(length.max())
        return Interaction(
            {
                dataset.uid_field: self.users[index],
                dataset.item_id_list_field: dataset.sequences.windows(begin, length, width),
                dataset.item_list_length_field: length,
            }
        )


def _settle(config: Config, dataset: BERT4RecDataset) -> None:
    """Replace ``auto`` in options of our models, now that the size of the data is known."""
    if not is_ours(config.model_class):
        return
    config["transform"] = None  # mask_itemseq: masks are drawn in the loss
    settled = settle(config, dataset.log_size)
    if settled:
        values = ", ".join(f"{name} is {config[name]}" for name in settled)
        getLogger(FOR_THE_USER).info(f"{AUTO}    {values}: chosen for {dataset.log_size}")
        refuse(config, mistakes_between(config.final_config_dict))
