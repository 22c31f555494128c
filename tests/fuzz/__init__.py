"""Damaged files for every reader; ``python -m tests.fuzz --count=10000`` is the long run."""
