"""Default settings of taggers and sequence learners, shared by commands and learners."""

from __future__ import annotations

LBFGS_ITERATIONS = 2000  # enough for L-BFGS to converge


def sequence_lam(n: float) -> float:
    """lam = 2/n for n sequences, which is crfsuite's c2 = 1. With sample weights, n is their sum."""
    return 2.0 / n
