"""Damaged files for every reader."""
