"""The paper, in plain torch."""
