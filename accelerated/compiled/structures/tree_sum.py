"""Rooted trees and forests: sum-product, one tree after another, all of one form (`tree.Forest`).

With f = exp(pairwise / mu - shift), w_v the probabilities of v's labels given the scores of v and below (they sum to 1)
and m_v(i) = sum_j w_v(j) f_v(i, j) the message to label i of the parent u:

    w_v ~ exp(unary[v] / mu - top) * the product of m_c over children,
    P(y_u = i, y_v = j) = P(y_u = i) f_v(i, j) w_v(j) / m_v(i)

This is safe if no transition is forbidden and all f >= exp(-LIMIT): then m_v(i) is in [exp(-LIMIT), 1]. A product of
messages is rescaled when its largest is below SMALL, and none of it may fall below exp(-LIMIT) of its largest, as
children that come later may raise it again: so nothing underflows there. Terms that `exp` sets to 0 are below exp(-400)
of the largest; if the sum over labels is at least exp(-LIMIT), what is lost weighs at most exp(2 LIMIT - 400) in any
message. Otherwise the whole tree is computed in the log domain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import exp, muladd
from accelerated.compiled.structures.chain import LIMIT, finish, prepare
from accelerated.compiled.structures.tree import load_nodes, sound
from accelerated.compiled.sweeps import fill, largest, lowest_above, padded, product, total
from accelerated.kernel import kernel

__all__ = ["Messages", "log_upward", "sum_product", "sum_product_of_trees"]

SMALL = 1e-30


class Messages(NamedTuple):
    """Scratch for trees of up to p nodes: weights, messages (p, Lp). pairs (Lp, Lp): sums over trees, if they share a
    matrix.
    """

    weights: np.ndarray
    messages: np.ndarray
    pairs: np.ndarray


@kernel
def sum_product_of_trees(lo, hi, unary, pairwise, stride, forest, mu, value, nodes, edges):
    """value (B,) = mu log Z; nodes (B * p, L): the marginals; edges (E, L, L): the marginals of pairs, summed if the
    matrix is shared.
    """
    p, L, inverse_mu = len(forest.above), unary.shape[1], 1.0 / mu
    Lp = padded(L)
    scores, factor, factor_t = np.empty((p, Lp)), np.empty((Lp, Lp)), np.empty((Lp, Lp))
    room = Messages(np.empty((p, Lp)), np.empty((p, Lp)), np.zeros((Lp, Lp)))
    shared = prepare(pairwise[0] if stride == 0 else np.zeros((L, L)), inverse_mu, factor, factor_t)
    for b in range(lo, hi):
        first, rows = b * p * stride, slice(b * p, (b + 1) * p)
        if not sound(unary[rows], pairwise, first, stride):
            value[b], nodes[rows], edges[first : first + (p if stride != 0 else 1)] = np.nan, np.nan, np.nan
            continue
        load_nodes(unary[rows], forest.counts, inverse_mu, scores)
        value[b] = mu * sum_product(scores, forest, pairwise, first, stride, inverse_mu, shared, room, edges)
        for v in range(p):
            for j in range(L):
                nodes[b * p + v, j] = scores[v, j]
    if stride == 0:
        finish(shared, room.pairs, edges[0])


@kernel
def sum_product(scores, forest, pairwise, first, stride, inverse_mu, shared, room, edges):
    """log Z of one tree; scores (>= p, Lp) = unary / mu become the marginals of its nodes.

    shared: `prepare` of the matrix where stride is 0. With stride 1, marginals of pairs go to edges[first + v]. With
    stride 0, a certified tree adds to room.pairs, for `finish`, and others add to edges[first].
    """
    weights, messages, pairs = room
    log_z = _upward(scores, forest, pairwise, first, stride, inverse_mu, shared, weights, messages, edges)
    if np.isnan(log_z):
        log_z = _log_sum_product(scores, forest, pairwise, first, stride, inverse_mu, weights, edges)
        for v in range(len(forest.above)):
            for j in range(scores.shape[1]):
                scores[v, j] = weights[v, j]
    else:
        _downward(forest, first, stride, shared, weights, messages, scores, edges)
        if stride == 0:
            _add_pairs(forest, messages, weights, pairs)
    return log_z


@kernel
def _upward(scores, forest, pairwise, first, stride, inverse_mu, shared, weights, messages, edges):
    """log Z, or nan if not certified: weights and messages (p, Lp); with stride 1, edges[first + v] (L, L) becomes
    f_v.
    """
    above, upward, factor, factor_t = forest.above, forest.upward, shared.factor, shared.factor_t
    p, L, Lp, value, floor = len(above), pairwise.shape[1], weights.shape[1], 0.0, np.exp(-LIMIT)
    if stride == 0 and (not shared.dense or shared.lowest < -LIMIT):
        return np.nan
    for v in range(p):
        fill(1.0, weights, v)
    for k in range(p):
        v = upward[k]
        u = above[v]
        top = largest(scores, v)
        if top == -np.inf:
            return np.nan
        for j in range(Lp):
            weights[v, j] *= exp(scores[v, j] - top)
        c = total(weights, v)
        if not c >= floor:
            return np.nan
        value += top + np.log(c)
        scale = 1.0 / c
        for j in range(Lp):
            weights[v, j] *= scale
        if u == p:
            continue
        if stride == 0:
            product(weights, v, factor_t, L, messages, v)
            value += shared.shift
        else:
            mine = prepare(pairwise[first + v], inverse_mu, factor, factor_t)
            if not mine.dense or mine.lowest < -LIMIT:
                return np.nan
            for i in range(L):
                for j in range(L):
                    edges[first + v, i, j] = factor[i, j]
            product(weights, v, factor_t, L, messages, v)
            value += mine.shift
        for j in range(Lp):
            weights[u, j] *= messages[v, j]
        m = largest(weights, u)
        if lowest_above(weights, u, 0.0) < floor * m:
            return np.nan
        if m < SMALL:
            value += np.log(m)
            for j in range(Lp):
                weights[u, j] /= m
    return value


@kernel
def _downward(forest, first, stride, shared, weights, messages, nodes, edges):
    """nodes (p, Lp) become the marginals; messages[v] becomes P(y_u) / m_v, 0 for roots; with stride 1, edges[first +
    v] = f_v becomes the marginals of the pair.
    """
    above, upward, factor = forest.above, forest.upward, shared.factor
    p, L, Lp = len(above), edges.shape[1], nodes.shape[1]
    for k in range(p - 1, -1, -1):
        v = upward[k]
        u = above[v]
        if u == p:
            fill(0.0, messages, v)
            for j in range(Lp):
                nodes[v, j] = weights[v, j]
            continue
        for i in range(Lp):
            messages[v, i] = nodes[u, i] / messages[v, i] if nodes[u, i] > 0.0 else 0.0
        if stride == 0:
            product(messages, v, factor, L, nodes, v)
            for j in range(Lp):
                nodes[v, j] *= weights[v, j]
        else:
            fill(0.0, nodes, v)
            for i in range(L):
                q = messages[v, i]
                for j in range(L):
                    pair = q * edges[first + v, i, j] * weights[v, j]
                    edges[first + v, i, j] = pair
                    nodes[v, j] += pair
        scale = 1.0 / total(nodes, v)  # 1 up to rounding, which would grow with depth
        for j in range(Lp):
            nodes[v, j] *= scale


@kernel
def _add_pairs(forest, q, weights, pairs):
    """pairs[i, j] += sum_v q[v, i] * weights[v, j], four nodes a sweep; q is 0 for roots."""
    p, Lp = len(forest.above), weights.shape[1]
    for b in range(p // 4):
        v = 4 * b
        for i in range(Lp):
            x0, x1, x2, x3 = q[v, i], q[v + 1, i], q[v + 2, i], q[v + 3, i]
            for j in range(Lp):
                two = muladd(x0, weights[v, j], muladd(x1, weights[v + 1, j], pairs[i, j]))
                pairs[i, j] = muladd(x2, weights[v + 2, j], muladd(x3, weights[v + 3, j], two))
    for v in range(p // 4 * 4, p):
        for i in range(Lp):
            for j in range(Lp):
                pairs[i, j] = muladd(q[v, i], weights[v, j], pairs[i, j])


@kernel
def _log_sum_product(scores, forest, pairwise, first, stride, inverse_mu, nodes, edges):
    """log Z in the log domain, for any scores; nodes (p, Lp): the marginals; edges: those of pairs. All marginals are 0
    if Z is 0.
    """
    above, upward = forest.above, forest.upward
    p, L, Lp = len(above), pairwise.shape[1], scores.shape[1]
    row = np.empty((1, Lp))
    value = log_upward(scores, forest, pairwise, first, stride, inverse_mu, row)
    for k in range(p - 1, -1, -1):
        v = upward[k]
        u, e = above[v], first + v * stride
        fill(0.0, nodes, v)
        if value == -np.inf:
            if stride != 0:
                edges[e] = 0.0
            continue
        if u == p:
            top = largest(scores, v)
            for j in range(Lp):
                nodes[v, j] = exp(scores[v, j] - top)
        else:
            for i in range(L):
                _log_row(scores, v, pairwise, e, i, inverse_mu, row)
                mass = total(row, 0)
                scale = nodes[u, i] / mass if mass > 0.0 else 0.0
                for j in range(L):
                    pair = scale * row[0, j]
                    nodes[v, j] += pair
                    edges[e, i, j] = edges[e, i, j] + pair if stride == 0 else pair
        scale = 1.0 / total(nodes, v)
        for j in range(Lp):
            nodes[v, j] *= scale
    return value


@kernel
def log_upward(scores, forest, pairwise, first, stride, inverse_mu, row):
    """log Z of one tree; scores (>= p, Lp) = unary / mu become log P(label | scores of the subtree) if Z is not 0. row
    (1, Lp) is scratch.
    """
    above, upward = forest.above, forest.upward
    p, value = len(above), 0.0
    for k in range(p):
        v = upward[k]
        u = above[v]
        top = largest(scores, v)
        if top == -np.inf:
            return top
        for j in range(scores.shape[1]):
            row[0, j] = exp(scores[v, j] - top)
        norm = top + np.log(total(row, 0))
        value += norm
        for j in range(scores.shape[1]):
            scores[v, j] -= norm
        if u < p:
            for i in range(pairwise.shape[1]):
                scores[u, i] += _log_row(scores, v, pairwise, first + v * stride, i, inverse_mu, row)
    return value


@kernel
def _log_row(scores, v, pairwise, e, i, inverse_mu, row):
    """log sum_j exp(scores[v, j] + pairwise[e, i, j] * inverse_mu); row (1, Lp) becomes the terms over the largest."""
    for j in range(pairwise.shape[1]):
        row[0, j] = scores[v, j] + pairwise[e, i, j] * inverse_mu
    for j in range(pairwise.shape[1], row.shape[1]):
        row[0, j] = -np.inf
    top = largest(row, 0)
    if top == -np.inf:
        fill(0.0, row, 0)
        return top
    for j in range(row.shape[1]):
        row[0, j] = exp(row[0, j] - top)
    return top + np.log(total(row, 0))
