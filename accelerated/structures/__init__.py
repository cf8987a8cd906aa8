"""Scored output spaces, with kernels."""
