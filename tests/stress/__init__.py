"""What a run survives: ``python -m tests.stress kills | flips | disks | pairs | loop`` (see ``--help`` of each)."""
