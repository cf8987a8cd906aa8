"""Labellings of chains drawn at random, one chain after another: log-domain messages forwards, labels backwards."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.structures.chain import longest, workspace
from accelerated.compiled.structures.chain_log import log_forward, log_total
from accelerated.compiled.sweeps import largest, load
from accelerated.kernel import kernel

__all__ = ["choose", "cumulate", "draw_labelling", "reached", "sample_range"]


@kernel
def sample_range(lo, hi, chains, mu, uniforms, value, labels):
    """value (B,) = mu log Z; labels (B, size, n): draws by the numbers uniforms (B, size, n) in [0, 1]. Chains as in
    `viterbi_range`.

    An impossible chain has value -inf and keeps its labels, an empty one has value 0.
    """
    unary, pairwise, start, length, edge_start, edge_stride = chains
    work = workspace(longest(lo, hi, length), unary.shape[1])
    inverse_mu = 1.0 / mu
    for b in range(lo, hi):
        n, value[b] = length[b], 0.0
        if n == 0:
            continue
        load(unary[start[b] : start[b] + n], inverse_mu, work.factor[:n])
        value[b] = mu * log_forward(work.factor, n, pairwise, edge_start[b], edge_stride, inverse_mu, work)
        if value[b] == -np.inf:
            continue
        value[b] += mu * log_total(work.forward, n - 1)
        for s in range(uniforms.shape[1]):
            draw_labelling(
                work.forward,
                n,
                pairwise,
                edge_start[b],
                edge_stride,
                inverse_mu,
                uniforms[b, s],
                work.rows,
                labels[b, s],
            )


@kernel
def draw_labelling(forward, n, pairwise, first, stride, inverse_mu, uniforms, rows, labels):
    """labels[:n], from the last position backwards; forward (n, Lp) holds log messages, rows (2, Lp) is scratch."""
    L = pairwise.shape[1]
    for t in range(n - 1, -1, -1):
        for j in range(forward.shape[1]):
            rows[0, j] = forward[t, j]
        if t < n - 1:
            e, y = first + t * stride, labels[t + 1]
            for j in range(L):
                rows[0, j] += pairwise[e, j, y] * inverse_mu
        labels[t] = choose(rows, L, uniforms[t])


@kernel
def choose(rows, L, uniform):
    """The first index whose cumulative weight exp(rows[0]) exceeds the share ``uniform`` of the total; rows (2, Lp),
    rows[1] is scratch.
    """
    top = largest(rows, 0)
    for j in range(rows.shape[1]):
        rows[1, j] = exp(rows[0, j] - top)
    cumulate(rows, L)
    return reached(rows, L, uniform)


@kernel
def cumulate(rows, L):
    """The L weights rows[1] become cumulative."""
    below = 0.0
    for j in range(L):
        below += rows[1, j]
        rows[1, j] = below


@kernel
def reached(rows, L, uniform):
    """The first of the L cumulative weights rows[1] that exceeds the share ``uniform`` of the last."""
    total = rows[1, L - 1]
    for j in range(L):
        if rows[1, j] > uniform * total or rows[1, j] >= total:
            return j
    return L - 1
