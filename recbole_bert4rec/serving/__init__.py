"""A trained model over HTTP, with a page that shows its recommendations."""
