"""Inference over classes and products with dense features, class-major: scores Z (K, n), features X (F, n).

Blocks of examples stay in the cache while the classes pass. Products over pairs (feature, class) take the pairs of
class k from rows[start[k]:start[k+1]]. Their features may have any smaller dtype that holds them exactly, so that less
memory is read.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from accelerated.compiled.arithmetic import exp, muladd
from accelerated.compiled.entries import entry
from accelerated.kernel import kernel

__all__ = ["class_losses", "class_residuals", "pairs_back", "pairs_forward", "spread_out", "weighted_pairs"]

BLOCK = 512


@intrinsic
def fused_plus(typingctx, total, x, y):
    """total + x * y, to be added in any order, fused where the processor can."""

    def generate(context, builder, signature, arguments):
        so_far, factor, other = arguments
        product = builder.fmul(factor, other, flags=("contract",))
        return builder.fadd(so_far, product, flags=("reassoc", "contract"))

    return types.float64(types.float64, types.float64, types.float64), generate


@kernel
def spread_out(indptr, indices, data, X):
    """X (F, n) += the rows, transposed."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            X[indices[e], i] += entry(data, e)


@kernel
def class_losses(Z, labels, losses):
    """losses (n,) = log sum_k exp Z[k] - Z[label]."""
    K, n = Z.shape
    top, total = np.empty(BLOCK), np.empty(BLOCK)
    for lo in range(0, n, BLOCK):
        m = min(BLOCK, n - lo)
        for i in range(m):
            top[i] = -np.inf
            total[i] = 0.0
        for k in range(K):
            z = Z[k, lo : lo + m]
            for i in range(m):
                top[i] = z[i] if z[i] > top[i] else top[i]
        for k in range(K):
            z = Z[k, lo : lo + m]
            for i in range(m):
                total[i] += exp(z[i] - top[i])
        for i in range(m):
            losses[lo + i] = np.log(total[i]) + (top[i] - Z[labels[lo + i], lo + i])


@kernel
def class_residuals(Z, before, c, labels, R, losses):
    """At the scores Z + c (Z - before): losses (n,), and R (K, n) = the probabilities, less 1 for the label."""
    K, n = Z.shape
    top, total = np.empty(BLOCK), np.empty(BLOCK)
    for lo in range(0, n, BLOCK):
        m = min(BLOCK, n - lo)
        for i in range(m):
            top[i] = -np.inf
            total[i] = 0.0
        for k in range(K):
            z, b, r = Z[k, lo : lo + m], before[k, lo : lo + m], R[k, lo : lo + m]
            for i in range(m):
                x = z[i] + c * (z[i] - b[i])
                r[i] = x
                top[i] = x if x > top[i] else top[i]
        for i in range(m):
            losses[lo + i] = top[i] - R[labels[lo + i], lo + i]
        for k in range(K):
            r = R[k, lo : lo + m]
            for i in range(m):
                e = exp(r[i] - top[i])
                r[i] = e
                total[i] += e
        for i in range(m):
            losses[lo + i] += np.log(total[i])
            total[i] = 1.0 / total[i]
        for k in range(K):
            r = R[k, lo : lo + m]
            for i in range(m):
                r[i] *= total[i]
        for i in range(m):
            R[labels[lo + i], lo + i] -= 1.0


@kernel
def pairs_forward(start, rows, values, X, Z):
    """Z (K, n): Z[k] = sum over the pairs of class k of value X[row]."""
    K, n = Z.shape
    for lo in range(0, n, BLOCK):
        hi = min(n, lo + BLOCK)
        m = hi - lo
        for k in range(K):
            z = Z[k, lo:hi]
            for i in range(m):
                z[i] = 0.0
            e = start[k]
            while e + 4 <= start[k + 1]:
                a, b = X[rows[e], lo:hi], X[rows[e + 1], lo:hi]
                c, d = X[rows[e + 2], lo:hi], X[rows[e + 3], lo:hi]
                s, t, u, v = values[e], values[e + 1], values[e + 2], values[e + 3]
                for i in range(m):
                    y = muladd(t, np.float64(b[i]), muladd(u, np.float64(c[i]), muladd(v, np.float64(d[i]), z[i])))
                    z[i] = muladd(s, np.float64(a[i]), y)
                e += 4
            while e < start[k + 1]:
                a, s = X[rows[e], lo:hi], values[e]
                for i in range(m):
                    z[i] = muladd(s, np.float64(a[i]), z[i])
                e += 1


@kernel
def pairs_back(start, rows, X, R, G):
    """G (pairs,): X[row] R[k] summed over the examples."""
    K, n = R.shape
    for e in range(len(G)):
        G[e] = 0.0
    for lo in range(0, n, BLOCK):
        hi = min(n, lo + BLOCK)
        m = hi - lo
        for k in range(K):
            r = R[k, lo:hi]
            e = start[k]
            while e + 4 <= start[k + 1]:
                a, b = X[rows[e], lo:hi], X[rows[e + 1], lo:hi]
                c, d = X[rows[e + 2], lo:hi], X[rows[e + 3], lo:hi]
                s, t, u, v = 0.0, 0.0, 0.0, 0.0
                for i in range(m):
                    s = fused_plus(s, np.float64(a[i]), r[i])
                    t = fused_plus(t, np.float64(b[i]), r[i])
                    u = fused_plus(u, np.float64(c[i]), r[i])
                    v = fused_plus(v, np.float64(d[i]), r[i])
                G[e] += s
                G[e + 1] += t
                G[e + 2] += u
                G[e + 3] += v
                e += 4
            while e < start[k + 1]:
                a, s = X[rows[e], lo:hi], 0.0
                for i in range(m):
                    s = fused_plus(s, np.float64(a[i]), r[i])
                G[e] += s
                e += 1


@kernel
def weighted_pairs(row, label, X, Z, lo, T, M):
    """T (pairs, m) = X[row] and M (pairs, m) = T times the probability of the label, for the examples lo, ..., lo + m -
    1.
    """
    K, m = Z.shape[0], T.shape[1]
    P, top, total = np.empty((K, m)), np.empty(m), np.empty(m)
    for i in range(m):
        top[i] = -np.inf
        total[i] = 0.0
    for k in range(K):
        z = Z[k, lo : lo + m]
        for i in range(m):
            top[i] = z[i] if z[i] > top[i] else top[i]
    for k in range(K):
        z, p = Z[k, lo : lo + m], P[k]
        for i in range(m):
            e = exp(z[i] - top[i])
            p[i] = e
            total[i] += e
    for i in range(m):
        total[i] = 1.0 / total[i]
    for e in range(len(row)):
        x, p, t, w = X[row[e], lo : lo + m], P[label[e]], T[e], M[e]
        for i in range(m):
            t[i] = x[i]
            w[i] = x[i] * (p[i] * total[i])
