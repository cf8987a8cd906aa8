"""A small kernel with a part: whether the private names of numba still work as they did."""

from __future__ import annotations

import numpy as np

from accelerated.kernel import kernel

__all__ = ["try_out"]


@kernel
def counted(n):
    x = np.empty(n)
    for i in range(n):
        x[i] = i
    return x


@kernel
def summed(n):
    total = 0.0
    for x in counted(n):
        total += x
    return total


def try_out() -> None:
    """Raise if the kernel is not compiled, or gives a wrong sum."""
    total = summed(4)
    if total != 6.0:
        raise ArithmeticError(f"a kernel gave {total}, not 6")
