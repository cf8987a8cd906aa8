"""Scored output spaces and the oracles that they answer."""
