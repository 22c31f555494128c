"""What a trained model is asked: the next items of every user, and where it looks."""
