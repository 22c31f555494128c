"""RecBole 1.2.1: the models."""
