"""Batches of masked chains that share transitions: best labels, log-partitions less gold scores, their gradients with a
weight for each chain, and products with their Hessians.

Scores may be float32: each is converted as it is loaded. A chain's messages stay in the cache of the processor between
its forward and its backward pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.structures.chain import (
    add_pairs,
    finish,
    max_product,
    prepare,
    scaled_backward,
    scaled_forward,
    workspace,
)
from accelerated.compiled.structures.chain_log import log_forward, log_sum_product, log_total
from accelerated.compiled.sweeps import fill, load, padded, product
from accelerated.kernel import kernel

__all__ = ["Batch", "Tables", "best_range", "hessian_range", "sums_range"]


class Batch(NamedTuple):
    """Chain b has the rows rows[offset[b]:offset[b + 1]] of unary (N, L), in this order, and the tables of group
    b // per_group: pairwise (G, L, L), starts and ends (G, L). labels (N,): gold labels, or (0,) for none.
    """

    unary: np.ndarray
    rows: np.ndarray
    offset: np.ndarray
    pairwise: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    labels: np.ndarray
    per_group: int


class Tables(NamedTuple):
    """Numbers of the labels of all rows, nodes (N, L), of pairs, edges (G, L, L), and of labels at first and last
    positions, ends (2, G, L).
    """

    nodes: np.ndarray
    edges: np.ndarray
    ends: np.ndarray


@kernel
def longest_of(batch, lo, hi):
    n = 0
    for b in range(lo, hi):
        n = max(n, batch.offset[b + 1] - batch.offset[b])
    return n


@kernel
def gather(batch, b, g, factor, scores):
    """scores (>= n, Lp) = factor * the scores of the labels of chain b, padded with -inf. Returns n, or -1 if a score
    is nan or +inf.
    """
    first, L, wrong = batch.offset[b], batch.unary.shape[1], 0
    n = batch.offset[b + 1] - first
    for t in range(n):
        row = batch.rows[first + t]
        for j in range(L):
            x = np.float64(batch.unary[row, j])
            wrong += not x < np.inf
            scores[t, j] = x * factor
        for j in range(L, scores.shape[1]):
            scores[t, j] = -np.inf
    if n > 0:
        for j in range(L):
            scores[0, j] += batch.starts[g, j] * factor
            scores[n - 1, j] += batch.ends[g, j] * factor
    return n if wrong == 0 else np.int64(-1)


@kernel
def gold_score(batch, b, g, n, mu, scores):
    """The score of the gold labels of chain b, where scores (n, Lp) are those of labels / mu; nan if a label is none of
    0..L-1.
    """
    first, L, total, before = batch.offset[b], batch.unary.shape[1], 0.0, np.int64(0)
    for t in range(n):
        y = batch.labels[batch.rows[first + t]]
        if y < 0 or y >= L:
            return np.nan
        total += mu * scores[t, y]
        if t > 0:
            total += batch.pairwise[g, before, y]
        before = y
    return total


@kernel
def sums_range(lo, hi, batch, mu, weights, value, nodes, edges, ends):
    """value[b] = mu log sum_y exp(score(y) / mu) - score(gold), b in lo..hi - 1; nan where a score of a label is nan or
    +inf, or a gold label none of 0..L-1. weights (B,), or (0,) for values alone: nodes (N, L) = weights[b] times the
    marginals of chain b less the indicators of gold labels; edges (G, L, L) and ends (2, G, L), of first and last
    positions, += the same.
    """
    n, L = longest_of(batch, lo, hi), batch.unary.shape[1]
    work, Lp = workspace(n, L), padded(L)
    scores, own, im, group = np.empty((n + 4, Lp)), np.zeros((1, L, L)), 1.0 / mu, lo // batch.per_group
    factor, factor_t, pairs = np.empty((Lp, Lp)), np.empty((Lp, Lp)), np.zeros((Lp, Lp))
    transitions = prepare(batch.pairwise[group], im, factor, factor_t)
    for b in range(lo, hi):
        g, first = b // batch.per_group, batch.offset[b]
        if g != group:
            finish(transitions, pairs, edges[group])
            pairs[:] = 0.0
            transitions, group = prepare(batch.pairwise[g], im, factor, factor_t), g
        n = gather(batch, b, g, im, scores)
        gold = gold_score(batch, b, g, n, mu, scores) if n > 0 and len(batch.labels) > 0 else 0.0
        if n < 0 or np.isnan(gold):
            value[b] = np.nan
            if len(weights) > 0:
                for t in range(first, batch.offset[b + 1]):
                    fill(0.0, nodes, batch.rows[t])
            continue
        if n == 0:
            value[b] = 0.0
            continue
        z = scaled_forward(scores, n, L, transitions, work.factor, work.forward)
        if len(weights) == 0:
            if np.isnan(z):
                z = log_forward(scores, n, batch.pairwise, g, np.int64(0), im, work)
                if z > -np.inf:
                    z += log_total(work.forward, n - 1)
            value[b] = mu * z - gold
            continue
        weight = weights[b]
        if np.isnan(z):
            own[:] = 0.0
            z = log_sum_product(scores, n, batch.pairwise[g : g + 1], np.int64(0), np.int64(0), im, work, own)
            for i in range(L):
                for j in range(L):
                    edges[g, i, j] += weight * own[0, i, j]
        else:
            scaled_backward(scores, n, L, transitions.factor_t, work.factor, work.forward)
            for t in range(n):
                for j in range(Lp):
                    work.factor[t, j] *= weight
            add_pairs(work.forward, work.factor, n, L, pairs)
        value[b] = mu * z - gold
        if len(batch.labels) > 0:
            for t in range(n):
                y = batch.labels[batch.rows[first + t]]
                scores[t, y] -= 1.0
                if t > 0:
                    edges[g, batch.labels[batch.rows[first + t - 1]], y] -= weight
        for t in range(n):
            row = batch.rows[first + t]
            for j in range(L):
                nodes[row, j] = weight * scores[t, j]
        for j in range(L):
            ends[0, g, j] += weight * scores[0, j]
            ends[1, g, j] += weight * scores[n - 1, j]
    finish(transitions, pairs, edges[group])


@kernel
def best_range(lo, hi, batch, value, labels):
    """value (B,) of the best outputs and labels (N,), the ties as by `viterbi_range`; nan where a score of a label is
    nan or +inf. Labels of rows that belong to no chain, or to one without a best output, are left as they are.
    """
    n, L = longest_of(batch, lo, hi), batch.unary.shape[1]
    work, scores, path, group = workspace(n, L), np.empty((n, padded(L))), np.empty(n, np.int64), np.int64(-1)
    for b in range(lo, hi):
        g, first = b // batch.per_group, batch.offset[b]
        if g != group:
            load(batch.pairwise[g], 1.0, work.matrix)
            group = g
        n = gather(batch, b, g, 1.0, scores)
        if n < 0:
            value[b] = np.nan
            continue
        value[b] = max_product(scores, n, batch.pairwise, g, np.int64(0), work.matrix, work.forward, path)
        for t in range(n):
            labels[batch.rows[first + t]] = path[t]


class Tangents(NamedTuple):
    """Room for one chain: tangents d of log messages, their parts e that come from before, log-normalisers of q_t, and
    (..., Lp) rows that the passes overwrite.
    """

    d: np.ndarray
    e: np.ndarray
    norm: np.ndarray
    ahead: np.ndarray
    moved: np.ndarray
    rows: np.ndarray


@kernel
def hessian_range(lo, hi, batch, mu, weights, along, inner, out):
    """inner[b] = <marginals of chain b, along>; out += weights[b] times the derivative of its marginals along ``along``
    (both `Tables`), as :func:`reference.structures.chain_hessian.hessian_product` has it. inner[b] is nan, and nothing
    is added, where scaled messages may lose a path.
    """
    n, L = longest_of(batch, lo, hi), batch.unary.shape[1]
    work, Lp = workspace(n, L), padded(L)
    shape = n + 4, Lp
    scores, im, group = np.empty(shape), 1.0 / mu, np.int64(-1)
    factor, factor_t = np.empty((Lp, Lp)), np.empty((Lp, Lp))
    table, table_t, pairs, mixed = np.zeros((Lp, Lp)), np.zeros((Lp, Lp)), np.zeros((Lp, Lp)), np.zeros((Lp, Lp))
    d, e, norm, ahead, moved = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape)
    room = Tangents(d, e, norm, ahead, moved, np.zeros((5, Lp)))
    transitions = prepare(batch.pairwise[lo // batch.per_group], im, factor, factor_t)
    for b in range(lo, hi):
        g, first = b // batch.per_group, batch.offset[b]
        if g != group:
            transitions, group = prepare(batch.pairwise[g], im, factor, factor_t), g
            for i in range(L):
                for j in range(L):
                    table[i, j] = table_t[j, i] = factor[i, j] * along.edges[g, i, j] * im
        n = gather(batch, b, g, im, scores)
        inner[b] = 0.0
        if n == 0:
            continue
        for t in range(n):
            for j in range(L):
                room.d[t, j] = np.float64(along.nodes[batch.rows[first + t], j]) * im
        for j in range(L):
            room.d[0, j] += along.ends[0, g, j] * im
            room.d[n - 1, j] += along.ends[1, g, j] * im
        z = scaled_forward(scores, n, L, transitions, work.factor, work.forward)
        if np.isnan(z):
            inner[b] = np.nan
            continue
        inner[b] = mu * _scaled_tangents(n, L, transitions, table, table_t, weights[b], work, room, pairs, mixed)
        for i in range(L):
            for j in range(L):
                out.edges[g, i, j] += factor[i, j] * pairs[i, j] + table[i, j] * mixed[i, j]
                pairs[i, j] = mixed[i, j] = 0.0
        for t in range(n):
            for j in range(L):
                out.nodes[batch.rows[first + t], j] = weights[b] * room.d[t, j]
        for j in range(L):
            out.ends[0, g, j] += weights[b] * room.d[0, j]
            out.ends[1, g, j] += weights[b] * room.d[n - 1, j]


@kernel
def _scaled_tangents(n, L, transitions, table, table_t, weight, work, room, pairs, mixed):
    """The mean of the direction; room.d (n, Lp), at first the direction of the labels, becomes the tangents of their
    marginals. The tangents of transitions are factor * pairs + table * mixed, where table = factor * direction.
    """
    f, p, dp = work.forward, 0, 1  # rows of room.rows
    for t in range(n):
        if t > 0:
            product(room.moved, t - 1, transitions.factor, L, room.rows, 0)
            product(f, t - 1, table, L, room.rows, 1)
        for j in range(f.shape[1]):
            c = work.factor[t, j] / f[t, j] if f[t, j] > 0.0 else 0.0  # 1 / (f[t - 1] @ factor)
            room.norm[t, j] = c
            room.e[t, j] = (room.rows[0, j] + room.rows[1, j]) * c if t > 0 else 0.0
            room.d[t, j] += room.e[t, j]
            room.moved[t, j] = f[t, j] * room.d[t, j]
    mass = mean = 0.0
    for j in range(f.shape[1]):
        mass += f[n - 1, j]
        mean += room.moved[n - 1, j]
    mean /= mass
    for j in range(f.shape[1]):
        room.rows[p, j] = f[n - 1, j] / mass
        room.rows[dp, j] = room.rows[p, j] * (room.d[n - 1, j] - mean)
    for t in range(n - 1, -1, -1):
        for j in range(f.shape[1]):
            room.ahead[t, j] = room.rows[p, j] * room.norm[t, j]
            room.e[t, j] = (room.rows[dp, j] - room.rows[p, j] * room.e[t, j]) * room.norm[t, j]
            room.d[t, j] = room.rows[dp, j]
        if t > 0:
            product(room.ahead, t, transitions.factor_t, L, room.rows, 2)
            product(room.ahead, t, table_t, L, room.rows, 3)
            product(room.e, t, transitions.factor_t, L, room.rows, 4)
            for j in range(f.shape[1]):
                x = room.rows[2, j]
                room.rows[p, j] = f[t - 1, j] * x
                room.rows[dp, j] = f[t - 1, j] * (room.d[t - 1, j] * x + room.rows[3, j] + room.rows[4, j])
    for t in range(n):
        for j in range(f.shape[1]):
            room.ahead[t, j] *= weight
            room.e[t, j] *= weight
    add_pairs(f, room.e, n, L, pairs)
    add_pairs(room.moved, room.ahead, n, L, pairs)
    add_pairs(f, room.ahead, n, L, mixed)
    return mean
