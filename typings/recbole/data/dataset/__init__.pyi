"""RecBole 1.2.1: the classes of data sets."""

from recbole.data.dataset.dataset import Dataset as Dataset
from recbole.data.dataset.sequential_dataset import SequentialDataset as SequentialDataset
