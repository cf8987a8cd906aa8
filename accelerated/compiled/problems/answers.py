"""The oracle's answers for all examples at one point, stored: each step of SVRG subtracts the gradient at the
snapshot.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

__all__ = ["MOST", "StoredAnswers", "nothing", "room_for"]

MOST = 2**28  # bytes


class StoredAnswers(NamedTuple):
    """Answers for n examples of N positions in all; ``outputs`` is empty where there is no room.

    Entropy over sequences: scores (N, Lp), node marginals less the truth; pairs (n, L, Lp), as in the workspace. Lists
    of outputs: labels (N, k) and weights (n, k) of the outputs that have weight. outputs (n,): the number of those
    outputs, 1 for entropy, -1 where nothing is stored.
    """

    scores: np.ndarray
    pairs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray


def nothing() -> StoredAnswers:
    """No answers and no room."""
    return StoredAnswers(
        np.empty((0, 0)),
        np.empty((0, 0, 0)),
        np.empty((0, 0), np.int64),
        np.empty((0, 0)),
        np.empty(0, np.int64),
    )


@singledispatch
def room_for(problem: Any) -> StoredAnswers:
    """Room for the answers to all examples of a problem; none if it would take more than MOST bytes or is not worth
    it.
    """
    return nothing()
