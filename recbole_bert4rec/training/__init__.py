"""One run of a model: from what is asked for, by way of data, model and callbacks, to its record."""
