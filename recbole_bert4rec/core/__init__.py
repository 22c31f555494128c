"""Sequences, Cloze masks, encoder, losses and top-k search: torch and numpy alone, nothing of RecBole."""
