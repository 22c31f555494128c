"""RecBole 1.2.1: its version; the types of what this package uses, as the code behaves."""

__version__: str
