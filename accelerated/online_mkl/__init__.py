"""Rounds of online multiple kernel learning as kernels."""
