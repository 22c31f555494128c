"""Everything that imports Ray: training, searching and recommending on more than one machine."""
