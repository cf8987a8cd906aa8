"""Packed sequence problems and their oracles, chosen by the problem's type.

Weights come as ``W`` (F, L) and ``A`` (1, L, L); sequence i owns positions offsets[i]:offsets[i+1], position p has entries
indptr[p]:indptr[p+1] of ``indices`` and ``data``. ``oracle`` leaves in the workspace what ``add_gradient`` then adds, times a
factor, to arrays shaped like the weights: the parts of the (smoothed) best output minus those of the true one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from accelerated.kernel import kernel
from accelerated.structures.chain_kernels import max_product, sum_product

__all__ = ["EntropyProblem", "MaxProblem", "Work", "add_gradient", "oracle", "workspace"]


class MaxProblem(NamedTuple):
    """Structural hinge: loss-augmented max-product. cost (L, L) by (true, predicted)."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray


class EntropyProblem(NamedTuple):
    """The max smoothed by entropy: sum-product at temperature mu. The log loss is the one with cost 0 and mu = 1."""

    offsets: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    labels: np.ndarray
    cost: np.ndarray


class Work(NamedTuple):
    """Room for one sequence: scores and nodes (n, L), edges (1, L, L), back-pointers (n, L), labels (n,)."""

    scores: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    back: np.ndarray
    labels: np.ndarray


@kernel
def workspace(longest, n_labels):
    """Room for sequences of up to ``longest`` positions."""
    return Work(
        np.empty((longest, n_labels)),
        np.empty((longest, n_labels)),
        np.zeros((1, n_labels, n_labels)),
        np.zeros((longest, n_labels), np.int64),
        np.empty(longest, np.int64),
    )


@kernel
def augmented_scores(problem, i, W, A, scores):
    """Fill scores[:n] with the loss-augmented scores of sequence i; return the score of its true labelling."""
    first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    gold = 0.0
    for t in range(n):
        row, y = scores[t], problem.labels[first + t]
        row[:] = 0.0
        for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
            x, weights = problem.data[e], W[problem.indices[e]]
            for label in range(W.shape[1]):
                row[label] += x * weights[label]
        gold += row[y]
        if t > 0:
            gold += A[0, problem.labels[first + t - 1], y]
        for label in range(W.shape[1]):
            row[label] += problem.cost[y, label]
    return gold


def oracle(problem: Any, i: Any, W: Any, A: Any, mu: Any, work: Any) -> Any:
    """The loss of sequence i at weights W, A; the workspace then holds its gradient for :func:`add_gradient`."""
    raise TypeError("oracle is called from kernels only")


def add_gradient(problem: Any, i: Any, factor: Any, work: Any, W: Any, A: Any) -> Any:
    """W, A += factor * gradient of the loss of sequence i that ``oracle`` has just left in the workspace."""
    raise TypeError("add_gradient is called from kernels only")


@overload(oracle)
def _oracle(problem, i, W, A, mu, work):
    if problem.instance_class is MaxProblem:

        def best(problem, i, W, A, mu, work):
            n = problem.offsets[i + 1] - problem.offsets[i]
            gold = augmented_scores(problem, i, W, A, work.scores)
            return max_product(work.scores, n, A, 0, 0, work.back, work.labels) - gold

        return best
    if problem.instance_class is EntropyProblem:

        def expected(problem, i, W, A, mu, work):
            n = problem.offsets[i + 1] - problem.offsets[i]
            gold = augmented_scores(problem, i, W, A, work.scores)
            work.edges[:] = 0.0
            return mu * sum_product(work.scores / mu, n, A / mu, 0, 0, work.nodes, work.edges) - gold

        return expected
    return None


@overload(add_gradient)
def _add_gradient(problem, i, factor, work, W, A):
    if problem.instance_class is MaxProblem:

        def best(problem, i, factor, work, W, A):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            for t in range(n):
                y, guess = problem.labels[first + t], work.labels[t]
                if y != guess:
                    for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                        x = factor * problem.data[e]
                        W[problem.indices[e], guess] += x
                        W[problem.indices[e], y] -= x
                if t > 0:
                    A[0, work.labels[t - 1], guess] += factor
                    A[0, problem.labels[first + t - 1], y] -= factor

        return best
    if problem.instance_class is EntropyProblem:

        def expected(problem, i, factor, work, W, A):
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            for t in range(n):
                row, y = work.nodes[t], problem.labels[first + t]
                row[y] -= 1.0
                for e in range(problem.indptr[first + t], problem.indptr[first + t + 1]):
                    x, weights = factor * problem.data[e], W[problem.indices[e]]
                    for label in range(W.shape[1]):
                        weights[label] += x * row[label]
                if t > 0:
                    A[0, problem.labels[first + t - 1], y] -= factor
            A += factor * work.edges

        return expected
    return None
