"""Sparse CRFs and safe screening."""
