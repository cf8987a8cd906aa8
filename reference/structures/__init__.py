"""Scored output spaces and their oracles."""
