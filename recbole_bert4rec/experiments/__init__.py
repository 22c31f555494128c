"""Many runs: compared, searched, reported, each kept once on disk."""
