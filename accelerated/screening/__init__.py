"""Sparse CRFs with safe screening, with kernels."""
