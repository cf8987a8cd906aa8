"""Oracles of structures."""
