"""Segments, one sequence after another: sum-product of semi-Markov chains, and draws, forwards and then backwards.

What precedes a segment with label l at s is kept as a log scale[s, l] times a factor carry[s, l], and what ends at t as
a maximum a label times a mass, so that the only logarithms are of columns below FLOOR.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelerated.compiled.arithmetic import exp
from accelerated.compiled.structures.chain import add_pairs, finish, longest, prepare
from accelerated.compiled.structures.chain_samples import choose
from accelerated.compiled.structures.segments import reverse
from accelerated.compiled.sweeps import fill, larger, largest, padded, product, total
from accelerated.kernel import inlined, kernel

__all__ = ["SumWork", "backward", "forward", "sample_range", "sum_range", "sum_workspace"]

# A label's factor from a product of probabilities with exp(transitions) is used from here on. What such a product loses
# to underflow is below L exp(-400); what a mass loses, whose terms are exp(score - maximum) times factors, below
# L W exp(-400), and the mass is at least FLOOR. Below FLOOR the label's factor is computed in logarithms.
FLOOR = np.exp(-150.0)


class SumWork(NamedTuple):
    """Scratch for sequences of up to rows - 4 tokens: `sum_workspace`."""

    ends: np.ndarray  # (rows, Lp) exp(log weight of what ends at t - high[t]), largest 1, or all 0 where high is -inf
    high: np.ndarray  # (rows,)
    top: np.ndarray  # (rows, L) the largest log weight of one segment that ends at t, without its factor; 0 for -inf
    mass: np.ndarray  # (rows, L) the sum of weights of all of these relative to it
    scale: np.ndarray  # (rows, L)
    carry: np.ndarray  # (rows, Lp)
    in_logs: np.ndarray  # (rows, L) whether a label's scale was computed in logarithms; its carry is 1
    share: np.ndarray  # (rows, Lp) probability of a segment's end divided by the weight there
    row: np.ndarray  # (2, max(Lp, W L))


@kernel
def sum_workspace(n, W, L):
    rows, Lp = n + 4, padded(L)
    return SumWork(
        np.empty((rows, Lp)),
        np.empty(rows),
        np.empty((rows, L)),
        np.empty((rows, L)),
        np.empty((rows, L)),
        np.empty((rows, Lp)),
        np.empty((rows, L), np.bool_),
        np.empty((rows, Lp)),
        np.empty((2, max(Lp, W * L))),
    )


@kernel
def forward(batch, b, transitions, inverse_mu, work, weights):
    """log Z of sequence b, of n >= 1 tokens; weights[s, w, l], (>= n, W, L), becomes the weight of the segment among
    those of its label that end where it ends, relative to work.top there.
    """
    segments, start, n, (_, W, L) = batch.segments, batch.start, batch.length[b], batch.segments.shape
    top, mass, scale, carry = work.top, work.mass, work.scale, work.carry
    for t in range(n):
        for j in range(L):
            top[t, j], mass[t, j] = -np.inf, 0.0
    for t in range(n):
        if t == 0:
            fill(1.0, carry, t)
            for j in range(L):
                scale[t, j] = 0.0
        else:
            _carry(batch, t, transitions, inverse_mu, work)
        for w in range(min(W, n - t)):
            for j in range(L):
                x = segments[start[b] + t, w, j] * inverse_mu + scale[t, j]
                weights[t, w, j] = x
                top[t + w, j] = larger(top[t + w, j], x)
        _end(t, L, work, weights)
    return work.high[n - 1] + np.log(total(work.ends, n - 1))


@inlined
def _carry(batch, s, transitions, inverse_mu, work):
    """scale[s] and carry[s] from ends[s - 1]."""
    L = batch.pairwise.shape[0]
    product(work.ends, s - 1, transitions.factor, L, work.carry, s)
    for j in range(L):
        work.scale[s, j] = work.high[s - 1] + transitions.shift
        work.in_logs[s, j] = not work.carry[s, j] >= FLOOR
        if work.in_logs[s, j]:
            work.scale[s, j], work.carry[s, j] = _column(batch.pairwise, j, s - 1, inverse_mu, work), 1.0


@kernel
def _column(pairwise, j, t, inverse_mu, work):
    """log sum_i exp(log weight of i at t + pairwise[i, j]); row[0] has the probabilities of i, 0 if the sum is."""
    row, L, high, mass = work.row, len(pairwise), -np.inf, 0.0
    for i in range(L):
        row[0, i] = work.top[t, i] + np.log(work.mass[t, i]) + pairwise[i, j] * inverse_mu
        high = larger(high, row[0, i])
    for i in range(L):
        row[0, i] = exp(row[0, i] - high) if high > -np.inf else 0.0
        mass += row[0, i]
    for i in range(L):
        row[0, i] = row[0, i] / mass if mass > 0.0 else 0.0
    return high + np.log(mass)


@inlined
def _end(t, L, work, weights):
    """The weights of all segments that end at t, mass[t], high[t] and ends[t]."""
    top, mass, carry, row, ends = work.top, work.mass, work.carry, work.row, work.ends
    high = -np.inf
    for j in range(L):
        high = larger(high, top[t, j])
        top[t, j] = top[t, j] if top[t, j] > -np.inf else 0.0
    count = min(weights.shape[1], t + 1)
    for w in range(count):
        for j in range(L):
            row[0, w * L + j] = weights[t - w, w, j] - top[t, j]
    for i in range(count * L):
        row[0, i] = exp(row[0, i])
    for w in range(count):
        for j in range(L):
            x = row[0, w * L + j] * carry[t - w, j]
            weights[t - w, w, j] = x
            mass[t, j] += x
    fill(0.0, ends, t)
    for j in range(L):
        ends[t, j] = exp(top[t, j] - high) * mass[t, j] if mass[t, j] > 0.0 else 0.0
    most = largest(ends, t)
    for j in range(L):
        ends[t, j] = ends[t, j] / most if most > 0.0 else 0.0
    work.high[t] = high + np.log(most)


@kernel
def backward(batch, b, transitions, inverse_mu, work, weights, pairs, edges):
    """weights (>= n, W, L) of `forward` become the marginals; the expected transitions are added to pairs (Lp, Lp), of
    which `finish` multiplies the common factor in, and to edges (L, L).
    """
    n, (_, W, L) = batch.length[b], batch.segments.shape
    ends, carry, share, mass = work.ends, work.carry, work.share, work.mass
    z = total(ends, n - 1)
    for j in range(share.shape[1]):
        share[n - 1, j] = ends[n - 1, j] / z if z > 0.0 else 0.0
    for s in range(n - 1, -1, -1):
        for j in range(L):  # of the end of a segment at s, until now its probability
            share[s, j] = share[s, j] / mass[s, j] if mass[s, j] > 0.0 else 0.0
            work.row[1, j] = 0.0
        for w in range(min(W, n - s)):
            for j in range(L):
                x = weights[s, w, j] * share[s + w, j]
                weights[s, w, j] = x
                work.row[1, j] += x
        if s > 0:
            _before(batch, s, transitions, inverse_mu, work, edges)
    add_pairs(ends, carry, n, L, pairs)


@inlined
def _before(batch, s, transitions, inverse_mu, work, edges):
    """share[s - 1] = probabilities of ends before s, from those of starts at s, row[1]; carry[s] = starts / carry[s],
    0 in columns of logarithms, which are added to edges.
    """
    L, Lp = batch.pairwise.shape[0], work.carry.shape[1]
    ends, carry, share = work.ends, work.carry, work.share
    for j in range(L):
        carry[s, j] = 0.0 if work.in_logs[s, j] else work.row[1, j] / carry[s, j]
    product(carry, s, transitions.factor_t, L, share, s - 1)
    for j in range(Lp):
        share[s - 1, j] *= ends[s - 1, j]
    for j in range(L):
        if work.in_logs[s, j] and work.row[1, j] > 0.0:
            _column(batch.pairwise, j, s - 1, inverse_mu, work)
            for i in range(L):
                x = work.row[0, i] * work.row[1, j]
                share[s - 1, i] += x
                edges[i, j] += x


@kernel
def sum_range(lo, hi, batch, mu, value, marginals, pairwise):
    """value (B,) = mu log sum exp(score / mu), marginals (N, W, L), pairwise (L, L) += expected transitions.

    Where every output is forbidden, the value is -inf and the marginals are 0; of an empty sequence the value is 0.
    """
    n, (_, W, L) = longest(lo, hi, batch.length), batch.segments.shape
    Lp, inverse_mu = padded(L), 1.0 / mu
    work, pairs = sum_workspace(n, W, L), np.zeros((Lp, Lp))
    transitions = prepare(batch.pairwise, inverse_mu, np.empty((Lp, Lp)), np.empty((Lp, Lp)))
    for b in range(lo, hi):
        n, value[b] = batch.length[b], 0.0
        if n > 0:
            weights = marginals[batch.start[b] : batch.start[b] + n]
            value[b] = mu * forward(batch, b, transitions, inverse_mu, work, weights)
            backward(batch, b, transitions, inverse_mu, work, weights, pairs, pairwise)
    finish(transitions, pairs, pairwise)


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
