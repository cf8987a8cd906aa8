"""Binary labellings of graphs as a problem: all weights are dense, A (1, 1, d), and W is empty. Indices of edge
features follow those of node features.

Weights of edge features are >= 0, so that a minimum cut is the oracle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.structures.cut import SIDE, SOURCE, augment_all, new_search, start
from accelerated.compiled.structures.cut_network import build_agreeing, new_graph
from accelerated.kernel import kernel

__all__ = ["Entries", "SegmentationProblem"]


class Entries(NamedTuple):
    """Sparse rows: row v has entries indptr[v]..indptr[v + 1] - 1 of ``indices`` (into the weights (d,)) and
    ``data``.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


class SegmentationProblem(NamedTuple):
    """Image i has nodes offsets[i]..offsets[i + 1] - 1 with true labels, and edges starts[i]..starts[i + 1] - 1 between
    its nodes ``ends`` (E, 2).

    augmented: whether losses are added to scores. mu = 0: the maximum.
    """

    offsets: np.ndarray
    nodes: Entries
    labels: np.ndarray
    starts: np.ndarray
    edges: Entries
    ends: np.ndarray
    augmented: bool


class Work(NamedTuple):
    """Room for one image. scores (p,): the foreground's less the background's; strength (e,): what an edge subtracts if
    its ends differ; best (p,): the best labels; numbers (1,): the task loss.
    """

    scores: np.ndarray
    strength: np.ndarray
    best: np.ndarray
    numbers: np.ndarray


@kernel
def score_rows(rows, first, w, scores):
    """scores (m,) of rows first to first + m - 1 at weights w (d,)."""
    indptr, indices, data = rows
    for v in range(len(scores)):
        total = 0.0
        for e in range(indptr[first + v], indptr[first + v + 1]):
            total += data[e] * w[indices[e]]
        scores[v] = total


@kernel
def add_entries(rows, v, factor, g):
    """g (d,) += factor * row v."""
    indptr, indices, data = rows
    for e in range(indptr[v], indptr[v + 1]):
        g[indices[e]] += factor * data[e]


@answers(oracles.room, SegmentationProblem)
def room(problem, batch, lo, hi, A):
    p = e = 0
    for k in range(lo, hi):
        p = max(p, problem.offsets[batch[k] + 1] - problem.offsets[batch[k]])
        e = max(e, problem.starts[batch[k] + 1] - problem.starts[batch[k]])
    return Work(np.empty(p), np.empty(e), np.empty(p, np.int64), np.zeros(1))


@answers(oracles.oracle, SegmentationProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    a, p = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
    b, e = problem.starts[i], problem.starts[i + 1] - problem.starts[i]
    scores, strength, best = work.scores[:p], work.strength[:e], work.best[:p]
    labels, ends, gold, wrong = problem.labels[a : a + p], problem.ends[b : b + e], 0.0, 0.0
    score_rows(problem.nodes, a, A[0, 0], scores)
    score_rows(problem.edges, b, A[0, 0], strength)
    for v in range(p):
        gold += scores[v] * labels[v]
        if problem.augmented:
            scores[v] += 1.0 - 2.0 * labels[v]  # up to a loss of 1 that both labels of a true foreground share
    graph, search = new_graph(p, e), new_search(p)
    build_agreeing(scores, strength, ends, graph)
    start(graph, search)
    possible, value = augment_all(graph, search, None) < np.inf, 0.0
    for v in range(p):
        best[v] = possible and search.node[v, SIDE] == SOURCE
        value += scores[v] * best[v] + (labels[v] if problem.augmented else 0)
        wrong += best[v] != labels[v]
    for k in range(e):
        value -= strength[k] * (best[ends[k, 0]] != best[ends[k, 1]])
        gold -= strength[k] * (labels[ends[k, 0]] != labels[ends[k, 1]])
    work.numbers[0] = wrong if problem.augmented else 0.0
    return value - gold if possible else -np.inf


@answers(oracles.add_dense, SegmentationProblem)
def add_dense(problem, i, factor, work, G):
    a, b, best = problem.offsets[i], problem.starts[i], work.best
    labels = problem.labels[a : problem.offsets[i + 1]]
    for v in range(len(labels)):
        if best[v] != labels[v]:
            add_entries(problem.nodes, a + v, factor * (best[v] - labels[v]), G[0, 0])
    for k in range(b, problem.starts[i + 1]):
        u, v = problem.ends[k, 0], problem.ends[k, 1]
        apart, truly = best[u] != best[v], labels[u] != labels[v]
        if apart != truly:
            add_entries(problem.edges, k, -factor if apart else factor, G[0, 0])
