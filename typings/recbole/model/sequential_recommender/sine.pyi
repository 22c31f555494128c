"""RecBole 1.2.1: SINE, whose import turns torch's anomaly detection on."""

from recbole.model.abstract_recommender import SequentialRecommender

class SINE(SequentialRecommender): ...
