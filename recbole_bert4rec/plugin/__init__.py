"""The classes that RecBole calls: model, dataset, loaders, trainer; and what is changed in RecBole for them."""
