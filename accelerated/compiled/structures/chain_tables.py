"""Sum-product of one chain that has a table of scores for each pair of neighbours, in the scaled domain of
:mod:`accelerated.compiled.structures.chain` where that is certified, else in the log domain.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.reductions import plus
from accelerated.compiled.structures.chain import LIMIT, extremes, nothing_lost
from accelerated.compiled.structures.chain_log import log_sum_product
from accelerated.compiled.sweeps import fill, largest, load, product, total
from accelerated.kernel import kernel

__all__ = ["log_partition_of_tables", "sums_of_tables"]


@kernel
def sums_of_tables(scores, n, tables, factors, work):
    """log Z, where tables[t] (L, L) lies between t - 1 and t; scores (>= n, Lp) and tables become the marginals.

    factors (>= n, Lp, Lp) is scratch.
    """
    if n == 0:
        return 0.0
    value = _forward(scores, n, tables, factors, work)
    if np.isnan(value):
        edges = np.zeros((n, tables.shape[1], tables.shape[2]))
        value = log_sum_product(scores, n, tables, 1, 1, 1.0, work, edges)
        tables[:n] = edges
        return value
    _backward(scores, n, tables, factors, work)
    return value


@kernel
def log_partition_of_tables(scores, n, tables, factors, work):
    """log Z, bit for bit as by `sums_of_tables`, without a backward pass; scores are scratch afterwards."""
    if n == 0:
        return 0.0
    value = _forward(scores, n, tables, factors, work)
    if np.isnan(value):
        return log_sum_product(scores, n, tables, 1, 1, 1.0, work, np.zeros((n, tables.shape[1], tables.shape[2])))
    return value


@kernel
def _forward(scores, n, tables, factors, work):
    """log Z, or nan if not certified: as `scaled_forward`, with factors[t] = exp(tables[t] - its largest entry)."""
    L, factor, forward = tables.shape[1], work.factor, work.forward
    value, c, dense = 0.0, 1.0, True
    for t in range(n):
        top = largest(scores, t)
        if top == -np.inf:
            return np.nan
        if t == 0:
            fill(1.0, forward, t)
        else:
            matrix = factors[t]
            load(tables[t], 1.0, matrix)
            high, low, whole = extremes(matrix, L, work.matrix)
            if not low - high >= -LIMIT:
                return np.nan
            for i in range(L):
                for j in range(matrix.shape[1]):
                    matrix[i, j] = exp(matrix[i, j] - high)
            for i in range(L, matrix.shape[0]):
                fill(0.0, matrix, i)
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
    return value


@kernel
def _backward(nodes, n, tables, factors, work):
    """nodes (n, Lp) = forward * backward; tables[t] = forward[t - 1] * factors[t] * (factor * backward)[t]."""
    L, factor, forward = tables.shape[1], work.factor, work.forward
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
                for j in range(L):
                    share = factors[t, i, j] * factor[t, j]
                    message = plus(message, share)
                    tables[t, i, j] = before * share
                nodes[t - 1, i] = message
