"""Figures: convergence curves, paths, words, binary pictures, boxes."""
