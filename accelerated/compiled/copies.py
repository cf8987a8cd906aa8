"""Copies and sums of arrays by loops. ``x[:n] = y`` also compiles the twenty functions with which numba writes an error
of shapes: three seconds at the first use.
"""

from __future__ import annotations

from accelerated.kernel import inlined

__all__ = ["add_to", "copy_table", "copy_to", "largest_entry"]


@inlined
def copy_to(x, out):
    """out (>= n,) begins with x (n,)."""
    for j in range(len(x)):
        out[j] = x[j]


@inlined
def copy_table(x, out):
    """out begins with x (n, m) in its rows and columns."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]


@inlined
def add_to(factor, x, out):
    """out (>= n,) += factor * x (n,)."""
    for j in range(len(x)):
        out[j] += factor * x[j]


@inlined
def largest_entry(x):
    """The largest of x (n,), n > 0, without nan."""
    best = x[0]
    for j in range(1, len(x)):
        best = max(best, x[j])
    return best
