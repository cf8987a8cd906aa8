"""Weights of single feature-label pairs, beside features with a row of W: the weights of a tagger restricted to the
pairs of its training data.

Most attributes of text occur with few labels, so a row each would be mostly empty. Their weights lie one after another
in the last rows of W (F, Lp), and each position lists those that it uses. So loops over all of W need no special case
for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.entries import entry
from accelerated.kernel import inlined, kernel

__all__ = [
    "Pairs",
    "Places",
    "add_column",
    "add_of_label",
    "add_of_labels",
    "all_may_change",
    "gather_pairs",
    "lay_out",
    "may_change",
    "no_pairs",
    "rows_of",
    "take_column",
]


class Pairs(NamedTuple):
    """Position p has pairs indptr[p]:indptr[p+1]: of label ``labels``, with weight W[rows, columns], with feature value
    ``data``.

    free (R, Lp) uint8: 1 where the weights in the rows of features may change, (0, Lp) if all may. transitions (L, L):
    the same for A.
    """

    indptr: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    labels: np.ndarray
    data: np.ndarray
    free: np.ndarray
    transitions: np.ndarray


def no_pairs(n_labels: int) -> Pairs:
    """The pairs of a problem where each feature has a row, and all weights may change."""
    none = np.zeros(0, np.uint32)
    return Pairs(
        np.zeros(0, np.int64),
        none,
        none,
        none,
        np.zeros(0),
        np.zeros((0, 0), np.uint8),
        np.ones((n_labels, n_labels)),
    )


class Places(NamedTuple):
    """The places of weights in W: feature j has row row[j], or, if that is -1, pairs first[j]:first[j]+many[j] of
    ``rows``, ``columns`` and ``labels``.
    """

    row: np.ndarray
    first: np.ndarray
    many: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    labels: np.ndarray


@kernel
def lay_out(offsets, indptr, features, values, places, begins, ends, shape):
    """Features as those with a row of W (indptr, indices, data) and the pairs of the others (the first five of Pairs).
    Where all values are 1, one is stored (:func:`entry`).

    A sequence's first position also has a pair for each label of ``begins``, its last for each of ``ends``, with the
    last weight of W, which has the given shape.
    """
    row, first, many, rows, columns, labels = places
    N = len(indptr) - 1
    whole, single = np.zeros(N + 1, np.int64), np.zeros(N + 1, np.int64)
    for i in range(len(offsets) - 1):
        if offsets[i] < offsets[i + 1]:
            single[offsets[i] + 1] += len(begins)
            single[offsets[i + 1]] += len(ends)
    for p in range(N):
        for e in range(indptr[p], indptr[p + 1]):
            j = features[e]
            if row[j] >= 0:
                whole[p + 1] += 1
            else:
                single[p + 1] += many[j]
        whole[p + 1] += whole[p]
        single[p + 1] += single[p]
    ones = len(values) == 1 and values[0] == 1.0
    indices, data = np.empty(whole[N], np.int64), np.ones(1 if ones else whole[N])
    of_row, of_column, of_label = (
        np.empty(single[N], np.uint32),
        np.empty(single[N], np.uint32),
        np.empty(single[N], np.uint32),
    )
    of_value = np.ones(1 if ones else single[N])
    for i in range(len(offsets) - 1):
        for p in range(offsets[i], offsets[i + 1]):
            a, b = whole[p], single[p]
            for e in range(indptr[p], indptr[p + 1]):
                j = features[e]
                if row[j] >= 0:
                    indices[a] = row[j]
                    if not ones:
                        data[a] = entry(values, e)
                    a += 1
                else:
                    for q in range(first[j], first[j] + many[j]):
                        of_row[b], of_column[b], of_label[b] = rows[q], columns[q], labels[q]
                        if not ones:
                            of_value[b] = entry(values, e)
                        b += 1
            for end in range(2):
                if p == (offsets[i], offsets[i + 1] - 1)[end]:
                    for label in (begins, ends)[end]:
                        of_row[b], of_column[b], of_label[b] = shape[0] - 1, shape[1] - 1, label
                        b += 1
    return whole, indices, data, single, of_row, of_column, of_label, of_value


@inlined
def gather_pairs(pairs, position, W, scores, t):
    """scores[t] += the weights of the position's pairs."""
    if len(pairs.rows) > 0:
        for e in range(pairs.indptr[position], pairs.indptr[position + 1]):
            scores[t, pairs.labels[e]] += entry(pairs.data, e) * W[pairs.rows[e], pairs.columns[e]]


@inlined
def may_change(pairs, row, label):
    """Whether this weight of a feature's row may change."""
    return pairs.free.shape[0] == 0 or pairs.free[row, label] != 0


@inlined
def all_may_change(pairs):
    """Whether all features have a row, and all of its weights may change."""
    return len(pairs.rows) == 0 and pairs.free.shape[0] == 0


@inlined
def add_of_labels(pairs, position, factor, scores, t, G):
    """G += factor * scores[t, label] for each of the position's pairs, at the pair's label."""
    if len(pairs.rows) > 0:
        for e in range(pairs.indptr[position], pairs.indptr[position + 1]):
            G[pairs.rows[e], pairs.columns[e]] += factor * entry(pairs.data, e) * scores[t, pairs.labels[e]]


@inlined
def add_of_label(pairs, position, factor, label, G):
    """G += factor for those of the position's pairs that have this label."""
    if len(pairs.rows) > 0:
        for e in range(pairs.indptr[position], pairs.indptr[position + 1]):
            if pairs.labels[e] == label:
                G[pairs.rows[e], pairs.columns[e]] += factor * entry(pairs.data, e)


@inlined
def add_column(problem, position, factor, label, G):
    """G += factor * the features of a position with this label."""
    pairs = problem.pairs
    for e in range(problem.indptr[position], problem.indptr[position + 1]):
        if may_change(pairs, problem.indices[e], label):
            G[problem.indices[e], label] += factor * entry(problem.data, e)
    add_of_label(pairs, position, factor, label, G)


@inlined
def take_column(problem, position, label, G):
    """The sum of squares of G at the features of a position with this label, which become 0."""
    pairs, total = problem.pairs, 0.0
    for e in range(problem.indptr[position], problem.indptr[position + 1]):
        total += G[problem.indices[e], label] ** 2
        G[problem.indices[e], label] = 0.0
    for e in range(pairs.indptr[position], pairs.indptr[position + 1]) if len(pairs.rows) > 0 else range(0):
        if pairs.labels[e] == label:
            total += G[pairs.rows[e], pairs.columns[e]] ** 2
            G[pairs.rows[e], pairs.columns[e]] = 0.0
    return total


@kernel
def rows_of(problem, i):
    """The rows of W that the features of sequence i use, some of them more than once."""
    first, last = problem.offsets[i], problem.offsets[i + 1]
    rows = problem.indices[problem.indptr[first] : problem.indptr[last]]
    if len(problem.pairs.rows) == 0:
        return rows
    start, end = problem.pairs.indptr[first], problem.pairs.indptr[last]
    together = np.empty(len(rows) + end - start, np.int64)
    for e in range(len(rows)):
        together[e] = rows[e]
    for e in range(start, end):
        together[len(rows) + e - start] = problem.pairs.rows[e]
    return together
