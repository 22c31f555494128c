"""Many runs: compared, searched and reported, each kept once on the disk."""
