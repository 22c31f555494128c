"""Models or variants side by side on the same rows."""
