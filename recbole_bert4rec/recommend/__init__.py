"""Asks a trained model for the next items of users, for scores and vectors, and for its reasons."""
