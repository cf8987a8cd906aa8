"""Row t of a (rows, Lp) array: products with a padded (Lp, Lp) matrix, sums, extremes. Lp is a multiple of 8.

Written for LLVM's loop vectoriser. Four matrix rows are taken in a sweep, with their numbers as 4 * b: these are
provably not negative, so there is no wrap-around test inside, and the alias tests move out of the loop. Reductions have
eight accumulators. Arguments are complete arrays with a row number, because a view such as a[t] costs two atomic
reference counts.
"""

from __future__ import annotations

import numpy as np

from accelerated.compiled.arithmetic import muladd
from accelerated.kernel import inlined, kernel


@inlined
def larger(x, y):
    return x if x > y else y


@inlined
def smaller(x, y):
    return x if x < y else y


@inlined
def fill(value, out, t):
    for j in range(out.shape[1]):
        out[t, j] = value


@inlined
def max_plus_product(x, s, matrix, count, out, t):
    """out[t, j] = max_{i < count} x[s, i] + matrix[i, j]; padded with -inf up to a multiple of 4."""
    fill(-np.inf, out, t)
    for b in range((count + 3) // 4):
        i = 4 * b
        x0, x1, x2, x3 = x[s, i], x[s, i + 1], x[s, i + 2], x[s, i + 3]
        for j in range(out.shape[1]):
            first = larger(larger(out[t, j], x0 + matrix[i, j]), x1 + matrix[i + 1, j])
            out[t, j] = larger(first, larger(x2 + matrix[i + 2, j], x3 + matrix[i + 3, j]))


@inlined
def product(x, s, matrix, count, out, t):
    """out[t, j] = sum_{i < count} x[s, i] * matrix[i, j]; padded with 0 up to a multiple of 4."""
    fill(0.0, out, t)
    for b in range((count + 3) // 4):
        i = 4 * b
        x0, x1, x2, x3 = x[s, i], x[s, i + 1], x[s, i + 2], x[s, i + 3]
        for j in range(out.shape[1]):
            first = muladd(x0, matrix[i, j], muladd(x1, matrix[i + 1, j], out[t, j]))
            out[t, j] = muladd(x2, matrix[i + 2, j], muladd(x3, matrix[i + 3, j], first))


@inlined
def largest(a, t):
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = -np.inf
    for b in range(a.shape[1] // 8):
        j = 8 * b
        m0, m1, m2, m3 = larger(m0, a[t, j]), larger(m1, a[t, j + 1]), larger(m2, a[t, j + 2]), larger(m3, a[t, j + 3])
        m4, m5 = larger(m4, a[t, j + 4]), larger(m5, a[t, j + 5])
        m6, m7 = larger(m6, a[t, j + 6]), larger(m7, a[t, j + 7])
    return larger(larger(larger(m0, m1), larger(m2, m3)), larger(larger(m4, m5), larger(m6, m7)))


@inlined
def total(a, t):
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for b in range(a.shape[1] // 8):
        j = 8 * b
        s0, s1, s2, s3 = s0 + a[t, j], s1 + a[t, j + 1], s2 + a[t, j + 2], s3 + a[t, j + 3]
        s4, s5, s6, s7 = s4 + a[t, j + 4], s5 + a[t, j + 5], s6 + a[t, j + 6], s7 + a[t, j + 7]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@inlined
def lowest_above(a, t, bound):
    """The smallest entry > bound, inf if there is none."""
    m = np.inf
    for j in range(a.shape[1]):
        if a[t, j] > bound:
            m = smaller(m, a[t, j])
    return m


@kernel
def padded(L):
    """The smallest multiple of 8 that is at least L and at least 8."""
    return max((L + 7) // 8 * 8, 8)


@kernel
def load(source, factor, out):
    """out (>= r, Lp) = factor * source (r, L), and -inf beside and below it."""
    r, L = source.shape
    for i in range(r):
        for j in range(L):
            out[i, j] = source[i, j] * factor
        for j in range(L, out.shape[1]):
            out[i, j] = -np.inf
    for i in range(r, out.shape[0]):
        fill(-np.inf, out, i)
