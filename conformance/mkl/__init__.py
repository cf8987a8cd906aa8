"""Kernels and online multiple kernel learning."""
