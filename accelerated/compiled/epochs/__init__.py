"""Loops over the examples of a problem, written once for all problems that answer the same questions."""
