"""Online multiple kernel learning for sequences: the box of its rounds, and their run."""
