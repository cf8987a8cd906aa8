"""Segmentations drawn at random, one sequence after another: sums forwards, segments backwards."""

from __future__ import annotations

import numpy as np

from accelerated.compiled.structures.chain import longest, prepare
from accelerated.compiled.structures.chain_samples import choose
from accelerated.compiled.structures.segments import forward, reverse, sum_workspace
from accelerated.compiled.sweeps import padded
from accelerated.kernel import kernel

__all__ = ["sample_range"]


@kernel
def sample_range(lo, hi, batch, mu, uniforms, value, rows):
    """value (B,) = mu log Z; rows (B, size, n, 3): draws by the numbers uniforms (B, size, n, 2) in [0, 1].

    Numbers [..., t, :] choose the label and the first token of the segment that ends at t. An impossible sequence has
    value -inf and keeps its rows, an empty one has value 0.
    """
    n, (_, W, L) = longest(lo, hi, batch.length), batch.segments.shape
    Lp, inverse_mu = padded(L), 1.0 / mu
    work, weights, row = sum_workspace(n, W, L), np.empty((n, W, L)), np.empty((2, padded(max(W, L))))
    transitions = prepare(batch.pairwise, inverse_mu, np.empty((Lp, Lp)), np.empty((Lp, Lp)))
    for b in range(lo, hi):
        n, value[b] = batch.length[b], 0.0
        if n > 0:
            value[b] = mu * forward(batch, b, transitions, inverse_mu, work, weights)
        if n > 0 and value[b] > -np.inf:
            for r in range(uniforms.shape[1]):
                _draw(batch, n, inverse_mu, uniforms[b, r], work, weights, row, rows[b, r])


@kernel
def _draw(batch, n, inverse_mu, uniforms, work, weights, row, rows):
    """rows (n, 3) from the last segment backwards; weights of `forward`."""
    W, L, t, y, count = weights.shape[1], weights.shape[2], n - 1, np.int64(-1), 0
    while t >= 0:
        for j in range(L):
            row[0, j] = work.top[t, j] + np.log(work.mass[t, j])
            if y >= 0:
                row[0, j] += batch.pairwise[j, y] * inverse_mu
        for j in range(L, row.shape[1]):
            row[0, j] = -np.inf
        y = choose(row, L, uniforms[t, 0])
        longest_here = min(W, t + 1)
        for w in range(row.shape[1]):
            row[0, w] = np.log(weights[t - w, w, y]) if w < longest_here else -np.inf
        w = choose(row, longest_here, uniforms[t, 1])
        rows[count, 0], rows[count, 1], rows[count, 2] = t - w, w, y
        count += 1
        t -= w + 1
    reverse(rows, count)
