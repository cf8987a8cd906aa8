"""Trials for step lengths as kernels."""
