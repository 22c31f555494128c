"""RecBole 1.2.1: a data set whose rows are a target and what came before it."""

from recbole.data.dataset.dataset import Dataset

class SequentialDataset(Dataset):
    max_item_list_len: int
    item_list_length_field: str
    item_id_list_field: str  # set by name, from the field of the items

    def _aug_presets(self) -> None: ...
    def data_augmentation(self) -> None: ...
    def _benchmark_presets(self) -> None: ...
