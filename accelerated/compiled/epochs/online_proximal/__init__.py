"""Rounds of the online proximal algorithm."""
