"""Chain kernels: one chain at a time in a workspace, and flat drivers over many.

Chain i owns rows start[i] : start[i] + length[i] of flat unary scores (N, L). The matrix between positions t-1 and t is
pairwise[edge_start[i] + (t-1) * edge_stride], so that a shared matrix is (1, L, L) with stride 0.
"""

from __future__ import annotations

import math

import numpy as np

from accelerated.kernel import kernel

__all__ = ["forward_backward_range", "max_product", "sum_product", "viterbi_range"]


@kernel
def max_product(S, n, A, first, stride, back, labels):
    """S (n, L) scores, A (E, L, L): the best value; labels[:n] written (-1 where every labelling is forbidden)."""
    L = S.shape[1]
    if n == 0:
        return 0.0
    here, ahead = S[0].copy(), np.empty(L)
    for t in range(1, n):
        E = A[first + (t - 1) * stride]
        for j in range(L):
            ahead[j] = here[0] + E[0, j]
            back[t, j] = 0
        for i in range(1, L):
            for j in range(L):
                total = here[i] + E[i, j]
                if total > ahead[j]:
                    ahead[j] = total
                    back[t, j] = i
        for j in range(L):
            here[j] = ahead[j] + S[t, j]
    y = 0
    for j in range(1, L):
        if here[j] > here[y]:
            y = j
    value = here[y]
    for t in range(n - 1, -1, -1):
        labels[t] = y if value > -np.inf else -1
        y = back[t, y]
    return value


@kernel
def _logsumexp(x):
    top = x[0]
    for i in range(1, len(x)):
        top = max(top, x[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(len(x)):
        total += math.exp(x[i] - top)
    return math.log(total) + top


@kernel
def sum_product(S, n, A, first, stride, nodes, edges):
    """S (n, L), A (E, L, L): log partition; nodes[:n] written, edges (E, L, L) added to."""
    L = S.shape[1]
    if n == 0:
        return 0.0
    forward, backward = np.empty((n, L)), np.zeros(L)
    forward[0] = S[0]
    for t in range(1, n):
        E = A[first + (t - 1) * stride]
        for j in range(L):
            forward[t, j] = S[t, j] + _logsumexp(forward[t - 1] + E[:, j])
    log_z = _logsumexp(forward[n - 1])
    if log_z == -np.inf:
        nodes[:n] = 0.0
        return log_z
    for t in range(n - 1, -1, -1):
        for j in range(L):
            nodes[t, j] = math.exp(forward[t, j] + backward[j] - log_z)
        if t > 0:
            e = first + (t - 1) * stride
            ahead = S[t] + backward
            for i in range(L):
                pair = A[e, i] + ahead
                backward[i] = _logsumexp(pair)
                for j in range(L):
                    edges[e, i, j] += math.exp(forward[t - 1, i] + pair[j] - log_z)
    return log_z


@kernel
def viterbi_range(lo, hi, unary, pairwise, start, length, edge_start, edge_stride, value, labels):
    """Best value (B,) and labels (N,) of chains lo..hi-1."""
    longest = 0
    for i in range(lo, hi):
        longest = max(longest, length[i])
    back = np.zeros((longest, unary.shape[1]), np.int64)
    for i in range(lo, hi):
        a, n = start[i], length[i]
        value[i] = max_product(unary[a : a + n], n, pairwise, edge_start[i], edge_stride, back, labels[a : a + n])


@kernel
def forward_backward_range(lo, hi, unary, pairwise, start, length, edge_start, edge_stride, mu, value, nodes, edges):
    """Value (B,), node marginals (N, L) and edge marginals added to edges (E, L, L) of chains lo..hi-1."""
    scaled = pairwise / mu
    for i in range(lo, hi):
        a, n = start[i], length[i]
        value[i] = mu * sum_product(
            unary[a : a + n] / mu, n, scaled, edge_start[i], edge_stride, nodes[a : a + n], edges
        )
