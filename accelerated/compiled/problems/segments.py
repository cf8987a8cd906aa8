"""Sequences of segments as a problem: the structural hinge by max-product, smoothed by entropy by sum-product.

Sequence i owns positions offsets[i] : offsets[i + 1]. W (3 F + G + n_widths, Lp) has the weights of features of a
segment's positions, summed; of its first position; of its last; of its own features; and of its length; A (1, L, L)
those of neighbours (:mod:`reference.models.segments`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.compiled.entries import entry
from accelerated.compiled.problems import oracles
from accelerated.compiled.problems.oracles import answers
from accelerated.compiled.problems.segmentations import Entries
from accelerated.compiled.problems.sequence import longest_of
from accelerated.compiled.structures.chain import finish, prepare
from accelerated.compiled.structures.segments import SegmentBatch, max_product, trace
from accelerated.compiled.structures.segments_sum import SumWork, backward, forward, sum_workspace
from accelerated.compiled.sweeps import fill, load, padded
from accelerated.kernel import inlined, kernel

__all__ = ["SegmentProblem"]


class SegmentProblem(NamedTuple):
    """tokens: features of positions; segments: those of segments, row p * n_widths + w of positions p .. p + w. labels
    (N,) are each position's; widths (N,): w where a true segment begins, else -1. forbidden (n_widths, L): 0 or -inf;
    cost (L, L) by (true, predicted), added up over the positions of segments. free: 1 where W may change, (0, Lp) if
    all may. n_features: F; n_rows: of W.

    At mu = 0 the maximum, otherwise sums; the log loss has cost 0 and mu = 1.
    """

    offsets: np.ndarray
    tokens: Entries
    segments: Entries
    labels: np.ndarray
    widths: np.ndarray
    forbidden: np.ndarray
    cost: np.ndarray
    free: np.ndarray
    n_features: int
    n_rows: int


class Work(NamedTuple):
    """Room for one sequence of up to n positions. scores (n, n_widths, L): scores, then their gradient; tokens (3 n,
    Lp): of the sum, the first and the last position t in rows t, n + t, 2 n + t; edges (1, L, L): the gradient in
    pairwise scores; rows (n, 3): the best output; length (1,): n. row (2, Lp), pairs (Lp, Lp), sums: scratch.
    """

    scores: np.ndarray
    tokens: np.ndarray
    edges: np.ndarray
    rows: np.ndarray
    length: np.ndarray
    row: np.ndarray
    pairs: np.ndarray
    sums: SumWork


@answers(oracles.room, SegmentProblem)
def room(problem, batch, lo, hi, A):
    n, (n_widths, L) = longest_of(problem, batch, lo, hi), problem.forbidden.shape
    return Work(
        np.empty((n, n_widths, L)),
        np.empty((3 * n, padded(L))),
        np.empty((1, L, L)),
        np.empty((n, 3), np.int64),
        np.empty(1, np.int64),
        np.empty((2, padded(L))),
        np.empty((padded(L), padded(L))),
        sum_workspace(n, n_widths, L),
    )


@answers(oracles.prepared, SegmentProblem)
def prepared(problem, A, mu, work):
    Lp = padded(A.shape[1])
    matrix, transposed = np.empty((Lp, Lp)), np.empty((Lp, Lp))
    transitions = prepare(A[0], 1.0 / mu if mu > 0.0 else 1.0, matrix, transposed)
    if mu == 0.0:
        load(A[0], 1.0, matrix)
    return transitions


@kernel
def sequence_scores(problem, i, s, W, A, work):
    """scores + cost, -inf where a label has no such length. Returns the true output's own score."""
    first, n, (n_widths, L) = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i], problem.forbidden.shape
    F, scores, tokens, row, inside = problem.n_features, work.scores, work.tokens, work.row, work.sums.carry
    gold, before, of_lengths = 0.0, np.int64(-1), W.shape[0] - n_widths
    for t in range(n):
        for part in range(3):
            _gather(problem.tokens, first + t, part * F, W, tokens, part * n + t)
    for t in range(n):
        fill(0.0, inside, 0)
        for w in range(min(n_widths, n - t)):
            y = problem.labels[first + t + w]
            _gather(problem.segments, (first + t) * n_widths + w, 3 * F, W, row, 0)
            for j in range(L):
                inside[0, j] += tokens[t + w, j]
                ends = tokens[n + t, j] + tokens[2 * n + t + w, j]
                row[0, j] = s * (row[0, j] + inside[0, j] + ends + W[of_lengths + w, j])
                row[1, j] = problem.cost[y, j] + (row[1, j] if w > 0 else 0.0)
                scores[t, w, j] = row[0, j] + row[1, j] + problem.forbidden[w, j]
            if problem.widths[first + t] == w:
                gold += row[0, y] + (A[0, before, y] if before >= 0 else 0.0)
                before = y
    work.length[0] = n
    return gold


@inlined
def _gather(entries, position, begin, W, out, t):
    """out[t] = the sum of the rows of W of a row's features, whose weights begin at row ``begin``."""
    fill(0.0, out, t)
    for e in range(entries.indptr[position], entries.indptr[position + 1]):
        x, k = entry(entries.data, e), begin + np.int64(entries.indices[e])
        for j in range(out.shape[1]):
            out[t, j] = muladd(x, W[k, j], out[t, j])


@answers(oracles.oracle, SegmentProblem)
def oracle(problem, i, s, W, A, ready, mu, work):
    gold, value, scores, edges = sequence_scores(problem, i, s, W, A, work), 0.0, work.scores, work.edges
    n, batch = work.length[0], SegmentBatch(scores, A[0], np.zeros(1, np.int64), work.length)
    edges[:] = 0.0
    if mu == 0.0:
        value = max_product(batch, 0, ready.factor, work.sums.ends, work.sums.carry)
        count = trace(batch, 0, value, work.sums.ends, work.sums.carry, work.rows) if value > -np.inf else 0
        scores[:n] = 0.0
        for r in range(count):
            scores[work.rows[r, 0], work.rows[r, 1], work.rows[r, 2]] = 1.0
            if r > 0:
                edges[0, work.rows[r - 1, 2], work.rows[r, 2]] += 1.0
    elif n > 0:
        value = mu * forward(batch, 0, ready, 1.0 / mu, work.sums, scores)
        work.pairs[:] = 0.0
        backward(batch, 0, ready, 1.0 / mu, work.sums, scores, work.pairs, edges[0])
        finish(ready, work.pairs, edges[0])
    _less_truth(problem, i, work)
    return value - gold


@kernel
def _less_truth(problem, i, work):
    """The truth is taken from scores and edges, and tokens become the gradient in what positions score."""
    first, n, scores, tokens = problem.offsets[i], work.length[0], work.scores, work.tokens
    before, (n_widths, L) = np.int64(-1), problem.forbidden.shape
    tokens[: 3 * n] = 0.0
    for t in range(n):
        if problem.widths[first + t] >= 0:
            y = problem.labels[first + t]
            scores[t, problem.widths[first + t], y] -= 1.0
            if before >= 0:
                work.edges[0, before, y] -= 1.0
            before = y
        fill(0.0, work.row, 0)
        for w in range(min(n_widths, n - t) - 1, -1, -1):
            for j in range(L):
                x = scores[t, w, j]
                work.row[0, j] += x  # of the segments from t on that are at least as long
                tokens[t + w, j] += work.row[0, j]
                tokens[n + t, j] += x
                tokens[2 * n + t + w, j] += x


@answers(oracles.add_rows, SegmentProblem)
def add_rows(problem, i, factor, work, G):
    first, n, (n_widths, L) = problem.offsets[i], work.length[0], problem.forbidden.shape
    F, of_lengths = problem.n_features, G.shape[0] - n_widths
    fill(0.0, work.row, 0)
    for t in range(n):
        for part in range(3):
            _add(problem.tokens, first + t, part * F, factor, work.tokens, part * n + t, problem.free, G)
        for w in range(min(n_widths, n - t)):
            some = False
            for j in range(L):
                work.row[0, j] = work.scores[t, w, j]
                some |= work.row[0, j] != 0.0
                G[of_lengths + w, j] += factor * work.row[0, j]
            if some:
                _add(problem.segments, (first + t) * n_widths + w, 3 * F, factor, work.row, 0, problem.free, G)


@inlined
def _add(entries, position, begin, factor, x, t, free, G):
    """G += factor * x[t] for each of a row's features: the adjoint of `_gather`."""
    for e in range(entries.indptr[position], entries.indptr[position + 1]):
        y, k = factor * entry(entries.data, e), begin + np.int64(entries.indices[e])
        for j in range(G.shape[1]):
            G[k, j] = muladd(y, x[t, j] if len(free) == 0 else x[t, j] * free[k, j], G[k, j])


@answers(oracles.add_dense, SegmentProblem)
def add_dense(problem, i, factor, work, G):
    G += factor * work.edges


@answers(oracles.task_loss, SegmentProblem)
def task_loss(problem, i, work):  # the truth's is 0
    total = 0.0
    for t in range(work.length[0]):
        for j in range(problem.cost.shape[1]):
            total += problem.cost[problem.labels[problem.offsets[i] + t], j] * work.tokens[t, j]
    return total


@answers(oracles.touched, SegmentProblem)
def touched(problem, i):
    """Features of positions in three places, of segments, and lengths."""
    first, last, W, F = problem.offsets[i], problem.offsets[i + 1], len(problem.forbidden), problem.n_features
    tokens = problem.tokens.indices[problem.tokens.indptr[first] : problem.tokens.indptr[last]]
    own = problem.segments.indices[problem.segments.indptr[first * W] : problem.segments.indptr[last * W]]
    of_tokens = F * np.arange(3).reshape(3, 1) + tokens
    return np.concatenate((of_tokens.ravel(), 3 * F + own, problem.n_rows - W + np.arange(W)))
