"""Losses, scores and steps of sparse CRFs."""
