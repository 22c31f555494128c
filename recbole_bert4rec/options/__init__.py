"""What can be set: one table of options, and all that follows from it."""
