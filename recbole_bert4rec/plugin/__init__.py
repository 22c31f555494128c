"""The classes that RecBole calls: model, dataset, loaders, trainer, checkpoint."""
