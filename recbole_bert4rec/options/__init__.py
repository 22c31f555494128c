"""The options: one table, and all that follows from it."""
