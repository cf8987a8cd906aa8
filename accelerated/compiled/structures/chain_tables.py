"""Sum-product of one chain that has a table of scores for each pair of neighbours, with the certificate and the scaling
of :mod:`accelerated.compiled.structures.chain`, but a table's own largest score in place of that of all.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.reductions import plus
from accelerated.compiled.structures.chain import LIMIT, extremes, nothing_lost
from accelerated.compiled.sweeps import fill, largest, product, total
from accelerated.kernel import kernel

__all__ = ["sums_of_tables"]


@kernel
def sums_of_tables(scores, n, L, tables, work, pairs):
    """log Z, or nan if not certified: then scores are unchanged.

    tables[t] (Lp, Lp), padded with -inf, lies between t - 1 and t. scores (>= n, Lp) and tables become the marginals;
    pairs (Lp, Lp) += the sum of the latter.
    """
    if n == 0:
        return 0.0
    factor, forward, value, c, dense = work.factor, work.forward, 0.0, 1.0, True
    for t in range(n):
        top = largest(scores, t)
        if top == -np.inf:
            return np.nan
        if t == 0:
            fill(1.0, forward, t)
        else:
            matrix = tables[t]
            high, low, whole = extremes(matrix, L, work.matrix)
            if not low - high >= -LIMIT:
                return np.nan
            for i in range(matrix.shape[0]):
                for j in range(matrix.shape[1]):
                    matrix[i, j] = exp(matrix[i, j] - high)
            product(forward, t - 1, matrix, L, forward, t)
            value += high
            dense &= whole
        scale = 1.0 / c
        for j in range(scores.shape[1]):
            weight = exp(scores[t, j] - top) * scale
            factor[t, j] = weight
            forward[t, j] *= weight
        c = total(forward, t)
        if not dense and not nothing_lost(scores, forward, t, top, c):
            return np.nan
        value += top + np.log(c)
    _backward(scores, n, L, tables, work, pairs)
    return value


@kernel
def _backward(nodes, n, L, tables, work, pairs):
    """nodes (n, Lp) = forward * backward; tables[t] = forward[t - 1] * tables[t] * (factor * backward)[t]."""
    factor, forward = work.factor, work.forward
    fill(1.0 / total(forward, n - 1), nodes, n - 1)
    for t in range(n - 1, -1, -1):
        for j in range(nodes.shape[1]):
            backward = nodes[t, j]
            factor[t, j] = factor[t, j] * backward if forward[t, j] > 0.0 else 0.0
            nodes[t, j] = forward[t, j] * backward
        if t > 0:
            fill(0.0, nodes, t - 1)
            for i in range(L):
                message, before = 0.0, forward[t - 1, i]
                for j in range(nodes.shape[1]):
                    share = tables[t, i, j] * factor[t, j]
                    message = plus(message, share)
                    tables[t, i, j] = before * share
                    pairs[i, j] += before * share
                nodes[t - 1, i] = message
