"""Property files of models and data sets, recipes and studies, as they ship."""
