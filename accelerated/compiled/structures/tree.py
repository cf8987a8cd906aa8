"""Rooted trees and forests: max-product and max-marginals, one tree after another, all of one form; for sums see
`tree_sum`.

Score of y: sum_v unary[v, y_v] + sum over v with a parent u of pairwise[v, y_u, y_v]. Inside, labels are padded to Lp,
a multiple of 8, with forbidden ones (-inf); a message to the parent has the parent's label along the row. A tree has p
nodes; number p stands for the common parent of all roots.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.copies import copy_table, copy_to
from accelerated.compiled.sweeps import fill, largest, load, max_plus_product, padded
from accelerated.kernel import inlined, kernel

__all__ = [
    "Forest",
    "forest_of",
    "forests_of",
    "is_forest",
    "load_transposed",
    "max_marginals_of_trees",
    "max_product_of_trees",
    "trace",
    "upward_messages",
]


class Forest(NamedTuple):
    """The form of a tree of p nodes, from its parents: `forest_of`."""

    above: np.ndarray  # (p,) the parent of each node, p for roots
    upward: np.ndarray  # (p,) the deepest nodes first, by number in each depth: roots last
    start: np.ndarray  # (p + 2,) u's children, by number, are member[start[u] : start[u + 1]]; those of p are the roots
    member: np.ndarray  # (p,)
    counts: np.ndarray  # (p,) number of labels


@kernel
def forest_of(parents, counts):
    """The Forest of parents (p,), and whether it is a forest: without a cycle."""
    p = len(parents)
    above, depth, start = np.empty(p, np.int64), np.full(p, -1), np.zeros(p + 2, np.int64)
    for v in range(p):
        above[v] = parents[v] if parents[v] >= 0 else p
        start[above[v] + 1] += 1
    for u in range(p + 1):
        start[u + 1] += start[u]
    member, place = np.empty(p, np.int64), start.copy()
    for v in range(p):
        member[place[above[v]]] = v
        place[above[v]] += 1
    most = 0
    for v in range(p):
        u, steps = v, 0
        while u < p and depth[u] < 0:
            u = above[u]
            steps += 1
            if steps > p:
                return Forest(above, member, start, member, counts), False
        deep = (depth[u] if u < p else -1) + steps
        most = max(most, deep)
        u = v
        while u < p and depth[u] < 0:
            depth[u] = deep
            deep -= 1
            u = above[u]
    first = np.zeros(most + 2, np.int64)  # first of each depth, the greatest depth at 0
    for v in range(p):
        first[most - depth[v] + 1] += 1
    for d in range(most + 1):
        first[d + 1] += first[d]
    upward = np.empty(p, np.int64)
    for v in range(p):
        upward[first[most - depth[v]]] = v
        first[most - depth[v]] += 1
    return Forest(above, upward, start, member, counts), True


@kernel
def is_forest(parents):
    """Whether parents (p,) lie in -1..p - 1 and have no cycle."""
    p = len(parents)
    for v in range(p):
        if not -1 <= parents[v] < p:
            return False
    return forest_of(parents, parents)[1]


@kernel
def forests_of(offsets, parents):
    """``above`` and ``upward`` (N,) of forests one after another, each counted within its own, from their parents
    (N,).
    """
    above, upward = np.empty(len(parents), np.int64), np.empty(len(parents), np.int64)
    for i in range(len(offsets) - 1):
        rows = slice(offsets[i], offsets[i + 1])
        forest, _ = forest_of(parents[rows], parents[:0])
        copy_to(forest.above, above[rows])
        copy_to(forest.upward, upward[rows])
    return above, upward


@kernel
def load_nodes(unary, counts, factor, out):
    """out (>= p, Lp) = factor * unary (p, L); -inf in the padding and for labels that a node does not have."""
    load(unary, factor, out)
    for v in range(len(counts)):
        for j in range(counts[v], unary.shape[1]):
            out[v, j] = -np.inf


@inlined
def load_transposed(pairwise, e, matrix):
    """matrix (Lp, Lp) = pairwise[e].T, (L, L), padded with -inf."""
    L = pairwise.shape[1]
    for i in range(L):
        for j in range(L):
            matrix[j, i] = pairwise[e, i, j]


@kernel
def new_matrix(pairwise, stride):
    """An (Lp, Lp) matrix for `load_transposed`: filled if stride is 0 (one matrix for all nodes), else only padded."""
    Lp = padded(pairwise.shape[1])
    matrix = np.full((Lp, Lp), -np.inf)
    if stride == 0:
        load_transposed(pairwise, 0, matrix)
    return matrix


@kernel
def sound(unary, pairwise, first, stride):
    """Whether no score of a tree is nan or +inf."""
    bad = 0
    for v in range(unary.shape[0]):
        for j in range(unary.shape[1]):
            bad += not unary[v, j] < np.inf
    for e in range(first, first + (unary.shape[0] if stride != 0 else 1)):
        for i in range(pairwise.shape[1]):
            for j in range(pairwise.shape[2]):
                bad += not pairwise[e, i, j] < np.inf
    return bad == 0


# Max-product


@kernel
def upward_messages(below, forest, pairwise, first, stride, matrix, messages):
    """The highest score. below (>= p, Lp) becomes the score of each node with its subtree, messages (p, Lp) the maxima
    over its labels.

    pairwise[first + v * stride], of (E, L, L), belongs to node v; with stride 0 matrix is its transpose, else scratch.
    Sums are the reference's, in the same order. A root's message is its maximum, at 0.
    """
    above, upward = forest.above, forest.upward
    L, p, value = pairwise.shape[1], len(above), 0.0
    for k in range(p):
        v = upward[k]
        u = above[v]
        if u == p:
            fill(-np.inf, messages, v)
            messages[v, 0] = largest(below, v)
            value += messages[v, 0]
        else:
            if stride != 0:
                load_transposed(pairwise, first + v, matrix)
            max_plus_product(below, v, matrix, L, messages, v)
            for j in range(below.shape[1]):
                below[u, j] += messages[v, j]
    return value


@inlined
def label_below(below, v, pairwise, e, above, best):
    """First j with below[v, j] + pairwise[e, above, j] == best: the operation that made best, so equality is exact."""
    last = pairwise.shape[1] - 1
    for j in range(last):
        if below[v, j] + pairwise[e, above, j] == best:
            return j
    return last


@inlined
def first_largest(below, v, best, last):
    """First j with below[v, j] == best."""
    for j in range(last):
        if below[v, j] == best:
            return j
    return last


@kernel
def trace(below, messages, forest, pairwise, first, stride, labels):
    """labels (p,) of the best labelling: the smallest best label of each root, then of its children."""
    above, upward = forest.above, forest.upward
    p, last = len(above), pairwise.shape[1] - 1
    for k in range(p - 1, -1, -1):
        v = upward[k]
        u = above[v]
        if u == p:
            labels[v] = first_largest(below, v, messages[v, 0], last)
        else:
            labels[v] = label_below(below, v, pairwise, first + v * stride, labels[u], messages[v, labels[u]])


# Drivers over trees lo .. hi - 1: tree b owns rows b * p : (b + 1) * p of the flat unary (B * p, L), and its node v has
# pairwise[(b * p + v) * stride] of (E, L, L).


@kernel
def max_product_of_trees(lo, hi, unary, pairwise, stride, forest, value, labels):
    """value (B,) and labels (B * p,) of the best outputs; -inf and -1 if all are forbidden, nan if a score is nan."""
    p, L = len(forest.above), unary.shape[1]
    below, messages, matrix = np.empty((p, padded(L))), np.empty((p, padded(L))), new_matrix(pairwise, stride)
    for b in range(lo, hi):
        first, rows = b * p * stride, slice(b * p, (b + 1) * p)
        if not sound(unary[rows], pairwise, first, stride):
            value[b] = np.nan
            continue
        load_nodes(unary[rows], forest.counts, 1.0, below)
        value[b] = upward_messages(below, forest, pairwise, first, stride, matrix, messages)
        if value[b] > -np.inf:
            trace(below, messages, forest, pairwise, first, stride, labels[rows])


@kernel
def max_marginals_of_trees(lo, hi, unary, pairwise, stride, forest, nodes, edges):
    """nodes (B * p, L) and edges (B * p, L, L): the best score with each part. Sums are the reference's, in the same
    order.
    """
    start, member, upward = forest.start, forest.member, forest.upward
    p, L = len(upward), unary.shape[1]
    Lp = padded(L)
    own, below, messages, matrix = np.empty((p, Lp)), np.empty((p, Lp)), np.empty((p, Lp)), new_matrix(pairwise, stride)
    above, rest = np.empty((p, Lp)), np.empty((p, Lp))
    ahead = np.empty((1, Lp))  # above all roots there is one label: every root's rest is the same for each label
    for b in range(lo, hi):
        load_nodes(unary[b * p : (b + 1) * p], forest.counts, 1.0, own)
        copy_table(own, below)
        upward_messages(below, forest, pairwise, b * p * stride, stride, matrix, messages)
        for j in range(Lp):
            ahead[0, j] = 0.0
        _rest_of_siblings(p, ahead, start, member, messages, rest)
        for q in range(start[p], start[p + 1]):
            v = member[q]
            for j in range(Lp):
                above[v, j] = rest[v, 0]
        for k in range(p - 1, -1, -1):
            u = upward[k]
            for j in range(Lp):
                ahead[0, j] = own[u, j] + above[u, j]
            for j in range(L):
                nodes[b * p + u, j] = below[u, j] + above[u, j]
            _rest_of_siblings(u, ahead, start, member, messages, rest)
            for q in range(start[u], start[u + 1]):
                v = member[q]
                e, home = (b * p + v) * stride, b * p + v
                fill(-np.inf, above, v)
                for i in range(L):
                    for j in range(L):
                        onto = rest[v, i] + pairwise[e, i, j]
                        above[v, j] = onto if onto > above[v, j] else above[v, j]
                        edges[home, i, j] = onto + below[v, j]


@inlined
def _rest_of_siblings(u, own, start, member, messages, rest):
    """rest[c] for each child c of u: own (1, Lp) plus the messages of all other children, from both ends."""
    first, end, Lp = start[u], start[u + 1], rest.shape[1]
    for q in range(first, end):  # what comes before
        c = member[q]
        for j in range(Lp):
            rest[c, j] = own[0, j]
            own[0, j] += messages[c, j]
    for q in range(end - 1, first, -1):  # what comes after
        c, before = member[q], member[q - 1]
        for j in range(Lp):
            own[0, j] = messages[c, j] if q == end - 1 else messages[c, j] + own[0, j]
            rest[before, j] += own[0, j]
