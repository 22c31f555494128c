"""What is changed in RecBole, and why."""
