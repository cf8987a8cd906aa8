"""Regularizers, proxes and projections."""
