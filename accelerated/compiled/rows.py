"""Products with sparse rows, and checks of arrays."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.entries import entry
from accelerated.kernel import kernel

__all__ = ["gather_sum", "nonzero", "scatter_sum", "within", "without_nan_and_inf"]


@kernel
def without_nan_and_inf(x):
    """Whether no entry of x (n,) is nan or +inf."""
    wrong = 0
    for i in range(len(x)):
        wrong += not x[i] < np.inf
    return wrong == 0


@kernel
def within(x, least, most):
    """Whether all of x (n,) lie in least..most."""
    wrong = 0
    for i in range(len(x)):
        wrong += not least <= x[i] <= most
    return wrong == 0


@kernel
def gather_sum(indptr, indices, data, W, out):
    """out (N, L) += rows @ W (d, L), all C order."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], entry(data, e)
            for label in range(W.shape[1]):
                out[i, label] += x * W[j, label]


@kernel
def scatter_sum(indptr, indices, data, G, out):
    """out (d, L) += rows.T @ G (N, L), all C order."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            j, x = indices[e], entry(data, e)
            for label in range(G.shape[1]):
                out[j, label] += x * G[i, label]


@kernel
def nonzero(block, columns, values):
    """The entries of block (n, m) that are not 0, row after row."""
    place = 0
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            if block[i, j] != 0:
                columns[place], values[place] = j, block[i, j]
                place += 1
