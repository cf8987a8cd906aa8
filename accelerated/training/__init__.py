"""Backtracking trials of step lengths, as kernels."""
