"""The oracle's answers for all examples at one point, kept: a step of SVRG subtracts the gradient at the snapshot
again.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

__all__ = ["MOST", "Kept", "nothing", "room_for"]

MOST = 2**28  # bytes


class Kept(NamedTuple):
    """Answers of n examples of N positions in all; ``outputs`` is empty where there is no room.

    By entropy over sequences: scores (N, Lp), node marginals less the truth; pairs (n, L, Lp), as in the workspace. By
    outputs: labels (N, k) of those that have weight, and weights (n, k). outputs (n,): how many those are, 1 for
    entropy; -1 where nothing is kept.
    """

    scores: np.ndarray
    pairs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray


def nothing() -> Kept:
    """No answers, no room."""
    return Kept(
        np.empty((0, 0)),
        np.empty((0, 0, 0)),
        np.empty((0, 0), np.int64),
        np.empty((0, 0)),
        np.empty(0, np.int64),
    )


@singledispatch
def room_for(problem: Any) -> Kept:
    """Room for the answers to all examples of a problem; none where that would take more than MOST bytes, or is not
    worth it.
    """
    return nothing()
