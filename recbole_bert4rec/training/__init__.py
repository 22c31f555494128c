"""One run of a model: from a request to data, model and callbacks, and on to the record."""
