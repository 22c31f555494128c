"""What a run survives; ``python -m tests.stress --count=100`` is the long run."""
