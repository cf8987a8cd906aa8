"""The array layer and what computes on it."""
