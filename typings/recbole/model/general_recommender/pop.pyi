"""RecBole 1.2.1: popularity."""

from recbole.model.abstract_recommender import GeneralRecommender
from torch import Tensor

class Pop(GeneralRecommender):
    item_cnt: Tensor  # (N, 1)
    max_cnt: Tensor
