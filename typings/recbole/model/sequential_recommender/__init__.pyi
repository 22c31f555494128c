"""RecBole 1.2.1: models of sequences; each is looked up here by name."""

from recbole.model.sequential_recommender.sine import SINE as SINE
