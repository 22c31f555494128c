"""Spaces of hyper-parameters, as they ship."""
