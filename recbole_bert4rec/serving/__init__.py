"""A trained model over HTTP, with a page to look at what it recommends."""
