"""Running a box on data: the loop, results, checkpoints, step sizes by backtracking, and the public functions."""
