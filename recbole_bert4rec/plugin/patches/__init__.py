"""Changes of RecBole, each with its reason."""
