"""RecBole 1.2.1: the classes of loaders."""

from recbole.data.dataloader.abstract_dataloader import AbstractDataLoader as AbstractDataLoader
from recbole.data.dataloader.abstract_dataloader import NegSampleDataLoader as NegSampleDataLoader
from recbole.data.dataloader.general_dataloader import FullSortEvalDataLoader as FullSortEvalDataLoader
from recbole.data.dataloader.general_dataloader import NegSampleEvalDataLoader as NegSampleEvalDataLoader
from recbole.data.dataloader.general_dataloader import TrainDataLoader as TrainDataLoader
