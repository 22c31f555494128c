"""RecBole 1.2.1: from a configuration to a data set and its three loaders."""

from recbole.data.utils import create_dataset as create_dataset
from recbole.data.utils import data_preparation as data_preparation
from recbole.data.utils import load_split_dataloaders as load_split_dataloaders
from recbole.data.utils import save_split_dataloaders as save_split_dataloaders
