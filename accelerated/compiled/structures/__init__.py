"""Oracles over arrays, one example after another."""
