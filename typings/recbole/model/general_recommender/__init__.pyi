"""RecBole 1.2.1: models of users and items without order."""

from recbole.model.general_recommender.pop import Pop as Pop
