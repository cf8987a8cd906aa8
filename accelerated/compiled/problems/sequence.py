"""Room for one sequence of a packed problem, and its scores from its features.

Every type of problem over sequences has these fields: sequence i owns positions offsets[i]:offsets[i+1]; position p has
entries indptr[p]:indptr[p+1] of ``indices`` and ``data`` (:mod:`accelerated.compiled.entries`), and label labels[p];
cost (L, L) is by (true, predicted). The weights are s W, where W is (F, Lp) with labels padded to a multiple of 8 and s
is a number; and A (1, L, L). ``pairs`` (:mod:`accelerated.compiled.problems.pairs`): features with a weight for one
label.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.entries import entry
from accelerated.compiled.problems.oracles import parent
from accelerated.compiled.problems.pairs import gather_pairs
from accelerated.compiled.structures.chain import Workspace, workspace
from accelerated.compiled.sweeps import fill, padded
from accelerated.kernel import inlined, kernel

__all__ = ["Work", "augmented_scores", "gather", "longest_of", "new_work"]


class Work(NamedTuple):
    """Room for one sequence of up to n positions, and for sums over sequences.

    scores (n, Lp): scores, then node marginals; labels (n,); matrix, transposed (Lp, Lp): the prepared transitions;
    pairs (Lp, Lp) and edges (1, L, L): expected transitions that wait for a flush; chain: the chain kernels' own.
    """

    scores: np.ndarray
    labels: np.ndarray
    matrix: np.ndarray
    transposed: np.ndarray
    pairs: np.ndarray
    edges: np.ndarray
    chain: Workspace


@kernel
def new_work(longest, n_labels):
    """Room for sequences of up to ``longest`` positions."""
    Lp = padded(n_labels)
    pairs, edges = np.empty((Lp, Lp)), np.empty((1, n_labels, n_labels))
    for i in range(Lp):
        fill(0.0, pairs, i)
    for i in range(n_labels):
        for j in range(n_labels):
            edges[0, i, j] = 0.0
    return Work(
        np.empty((longest, Lp)),
        np.empty(longest, np.int64),
        np.empty((Lp, Lp)),
        np.empty((Lp, Lp)),
        pairs,
        edges,
        workspace(longest, n_labels),
    )


@inlined
def gather(problem, position, W, scores, t):
    """scores[t] = the sum of the rows of W (F, Lp) of a position's features: four rows a sweep, in the order of
    storage.
    """
    data, first, last = problem.data, problem.indptr[position], problem.indptr[position + 1]
    fill(0.0, scores, t)
    for b in range((last - first) // 4):
        e = first + 4 * b
        x0, x1, x2, x3 = entry(data, e), entry(data, e + 1), entry(data, e + 2), entry(data, e + 3)
        j0, j1, j2, j3 = problem.indices[e], problem.indices[e + 1], problem.indices[e + 2], problem.indices[e + 3]
        for label in range(scores.shape[1]):
            two = muladd(x1, W[j1, label], muladd(x0, W[j0, label], scores[t, label]))
            scores[t, label] = muladd(x3, W[j3, label], muladd(x2, W[j2, label], two))
    for e in range(last - (last - first) % 4, last):
        x, j = entry(data, e), problem.indices[e]
        for label in range(scores.shape[1]):
            scores[t, label] = muladd(x, W[j, label], scores[t, label])
    gather_pairs(problem.pairs, position, W, scores, t)


@kernel
def augmented_scores(problem, i, s, W, A, inverse_mu, scores):
    """scores[:n] = (scores + cost of sequence i) * inverse_mu, padded with -inf. Returns the true labelling's own
    score.
    """
    first, n, L = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], A.shape[1]
    gold = 0.0
    for t in range(n):
        y, above = problem.labels[first + t], parent(problem, i, t)
        gather(problem, first + t, W, scores, t)
        gold += s * scores[t, y]
        if above >= 0:
            gold += A[0, problem.labels[first + above], y]
        for label in range(L):
            scores[t, label] = (s * scores[t, label] + problem.cost[y, label]) * inverse_mu
        for label in range(L, scores.shape[1]):
            scores[t, label] = -np.inf
    return gold


@kernel
def longest_of(problem, batch, lo, hi):
    """The number of positions of the longest sequence of batch[lo:hi]."""
    n = 0
    for k in range(lo, hi):
        n = max(n, problem.offsets[batch[k] + 1] - problem.offsets[batch[k]])
    return n
