"""Optimisers: equations, runs, certificates."""
