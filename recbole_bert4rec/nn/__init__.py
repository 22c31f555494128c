"""Torch modules, losses and top-k search, which know nothing of RecBole."""
