"""What runs a box on data until it is done: one loop, results, checkpoints, step lengths that are found, and the
public functions.
"""
