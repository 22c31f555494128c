"""Sequences, batches, masks, negatives and splits as tensors and arrays, which know nothing of RecBole."""
