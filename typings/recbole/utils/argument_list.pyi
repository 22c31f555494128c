"""RecBole 1.2.1: the names of its options."""

general_arguments: list[str]
training_arguments: list[str]
evaluation_arguments: list[str]
dataset_arguments: list[str]
