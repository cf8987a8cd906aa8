"""Figures: convergence curves, paths, words, grids of pixels, boxes."""
