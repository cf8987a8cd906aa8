"""The oracle's answers for all sequences at one point, kept: a step of SVRG subtracts the gradient at the snapshot again.

room_for(problem, n_labels)              arrays for all answers, or none where they would take too much memory
remember(problem, i, work, kept)         what the oracle has left in the workspace, nothing since the last flush before it
recall(problem, i, kept, work)           puts it back: as after the oracle, for the gradient; False where it was not kept
remember_labels, recall_labels           the same of all that ``add_features`` asks for, and nothing of the transitions
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from accelerated.compiled.problems import EntropyProblem, TopKProblem
from accelerated.compiled.reductions import plus
from accelerated.compiled.sweeps import padded

__all__ = ["MOST", "Kept", "nothing", "recall", "recall_labels", "remember", "remember_labels", "room_for"]

MOST = 2**28  # bytes


class Kept(NamedTuple):
    """Answers of n sequences of N positions in all; ``outputs`` is empty where there is no room.

    EntropyProblem: scores (N, Lp), node marginals less the truth; pairs (n, L, Lp), as in the workspace. TopKProblem: labels (N, k) of
    the outputs that have weight, and weights (n, k). outputs (n,): how many those are, 1 for entropy; -1 where nothing is kept.
    """

    scores: np.ndarray
    pairs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray


def room_for(problem: Any, n_labels: int) -> Kept:
    """Room for the answers to all sequences of a problem; none where that would take more than MOST bytes."""
    n, N, L = len(problem.offsets) - 1, int(problem.offsets[-1]), n_labels
    if isinstance(problem, EntropyProblem) and 8 * padded(L) * (N + n * L) <= MOST:
        return Kept(
            np.empty((N, padded(L))),
            np.empty((n, L, padded(L))),
            np.empty((0, 0), np.int64),
            np.empty((0, 0)),
            np.full(n, -1),
        )
    if isinstance(problem, TopKProblem) and 8 * problem.k * (N + n) <= MOST:
        return Kept(
            np.empty((0, 0)),
            np.empty((0, 0, 0)),
            np.empty((N, problem.k), np.int64),
            np.empty((n, problem.k)),
            np.full(n, -1),
        )
    return nothing()


def nothing() -> Kept:
    """No answers, no room."""
    return Kept(
        np.empty((0, 0)),
        np.empty((0, 0, 0)),
        np.empty((0, 0), np.int64),
        np.empty((0, 0)),
        np.empty(0, np.int64),
    )


def remember(problem: Any, i: Any, work: Any, kept: Any) -> Any:
    """Keep the oracle's answer for sequence i."""
    raise TypeError("remember is called from kernels only")


def recall(problem: Any, i: Any, kept: Any, work: Any) -> Any:
    """Put the answer for sequence i into the workspace; False where it was not kept."""
    raise TypeError("recall is called from kernels only")


def remember_labels(problem: Any, i: Any, work: Any, kept: Any) -> Any:
    """Keep the part of the answer for sequence i that is about single positions."""
    raise TypeError("remember_labels is called from kernels only")


def recall_labels(problem: Any, i: Any, kept: Any, work: Any) -> Any:
    """Put that part into the workspace."""
    raise TypeError("recall_labels is called from kernels only")


@overload(remember_labels)
def _remember_labels(problem, i, work, kept):
    if problem.instance_class is EntropyProblem:

        def expected(problem, i, work, kept):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            for t in range(n):
                for label in range(work.scores.shape[1]):
                    kept.scores[first + t, label] = work.scores[t, label]

        return expected

    def several(problem, i, work, kept):
        first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
        labels, weights, count = work.outputs.labels, work.outputs.weights, work.outputs.state[0]
        kept.outputs[i] = count
        for a in range(count):
            kept.weights[i, a] = weights[a]
            for t in range(n):
                kept.labels[first + t, a] = labels[a, t]

    return several


@overload(recall_labels)
def _recall_labels(problem, i, kept, work):
    if problem.instance_class is EntropyProblem:

        def expected(problem, i, kept, work):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            for t in range(n):
                for label in range(work.scores.shape[1]):
                    work.scores[t, label] = kept.scores[first + t, label]

        return expected

    def several(problem, i, kept, work):
        first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
        labels, weights, count = work.outputs.labels, work.outputs.weights, kept.outputs[i]
        work.outputs.state[0] = count
        for a in range(count):
            weights[a] = kept.weights[i, a]
            for t in range(n):
                labels[a, t] = kept.labels[first + t, a]

    return several


@overload(remember)
def _remember(problem, i, work, kept):
    if problem.instance_class is EntropyProblem:

        def expected(problem, i, work, kept):
            n, total = problem.offsets[i + 1] - problem.offsets[i], 0.0
            remember_labels(problem, i, work, kept)
            for a in range(kept.pairs.shape[1]):
                for b in range(work.pairs.shape[1]):
                    kept.pairs[i, a, b] = work.pairs[a, b]
                    total = plus(total, work.pairs[a, b])
            kept.outputs[i] = 1 if n < 2 or total > 0.0 else -1  # 0: from the log domain, which writes elsewhere

        return expected

    if problem.instance_class is TopKProblem:

        def several(problem, i, work, kept):
            remember_labels(problem, i, work, kept)

        return several

    def no_room(problem, i, work, kept):
        pass

    return no_room


@overload(recall)
def _recall(problem, i, kept, work):
    if problem.instance_class is EntropyProblem:

        def expected(problem, i, kept, work):
            if len(kept.outputs) == 0 or kept.outputs[i] < 0:
                return False
            recall_labels(problem, i, kept, work)
            for a in range(kept.pairs.shape[1]):
                for b in range(work.pairs.shape[1]):
                    work.pairs[a, b] = kept.pairs[i, a, b]
            return True

        return expected

    if problem.instance_class is TopKProblem:

        def several(problem, i, kept, work):
            if len(kept.outputs) == 0 or kept.outputs[i] < 0:
                return False
            recall_labels(problem, i, kept, work)
            return True

        return several

    def never(problem, i, kept, work):
        return False

    return never
