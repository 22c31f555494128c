"""Parts that every room uses: errors, files, processes, versions; nothing of models or data."""
