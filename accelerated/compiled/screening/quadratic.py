"""Coordinate descent on a quadratic with the elastic net."""

from __future__ import annotations

from accelerated.compiled.arithmetic import muladd
from accelerated.kernel import kernel

__all__ = ["descend_in_place"]


@kernel
def descend_in_place(H, q, x, lam, beta, sweeps, enough):
    """x becomes the minimiser of a quadratic plus lam/2 ||x||^2 + beta ||x||_1; the quadratic has Hessian H (k, k) and
    gradient q at x.

    The descent ends once a sweep gains at most the share ``enough`` of the best sweep's gain; q stays the gradient at
    x.
    """
    most = 0.0
    for _ in range(sweeps):
        largest = 0.0
        for j in range(len(x)):
            h = H[j, j]
            v = h * x[j] - q[j]
            rest = v - beta if v > beta else (v + beta if v < -beta else 0.0)
            new = rest / (h + lam)
            if new != x[j]:
                move, column = new - x[j], H[j]
                for i in range(len(x)):
                    q[i] = muladd(move, column[i], q[i])
                gain = (h + lam) * move * move
                largest = gain if gain > largest else largest
                x[j] = new
        most = largest if largest > most else most
        if largest <= enough * most:
            break
