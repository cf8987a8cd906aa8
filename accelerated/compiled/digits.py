"""Fixed-point numbers with as many digits as needed: scores of any size are added and subtracted without rounding.

Digits (D,) int64 stand for sum_d digits[d] 2^(32 d - BITS). All but the last are in 0..2^32 - 1; the last has either
sign.
"""

from __future__ import annotations

import math

import numpy as np

from accelerated.kernel import kernel

__all__ = ["add", "count", "difference", "put", "sum_less"]

BITS = 58  # fractional bits: logarithms up to 31 in size fit int64 at this resolution
BASE = 32
MASK = (1 << BASE) - 1
FULL = 2.0**53  # smaller integers are exact in float64


@kernel
def count(largest, exponent):
    """The number of digits that hold sums of at most 2^40 numbers, each up to ``largest`` 2^-exponent in size."""
    return max(math.frexp(largest)[1] - exponent + BITS, 53) // BASE + 3


@kernel
def put(x, exponent, out):
    """out (D,) = x 2^-exponent, rounded down to a multiple of 2^-BITS; x is finite."""
    significand, e = math.frexp(x)
    whole, shift = np.int64(math.ldexp(significand, 53)), e - 53 - exponent + BITS
    if shift < 0:
        whole, shift = whole >> min(-shift, 62), 0
    out[:] = 0
    d, rest = shift // BASE, shift % BASE
    out[d] = (whole & MASK) << rest
    out[d + 1] = (whole >> BASE) << rest
    _carry(out)


@kernel
def add(x, out):
    """out += x for a number -31 <= x <= 31, rounded to a multiple of 2^-BITS."""
    whole = np.int64(np.rint(math.ldexp(x, BITS)))
    out[0] += whole & MASK
    out[1] += whole >> BASE
    _carry(out)


@kernel
def sum_less(a, b, c, out):
    """out = a + b - c, all (D,); out may be one of them."""
    for d in range(len(out)):
        out[d] = a[d] + b[d] - c[d]
    _carry(out)


@kernel
def difference(a, b, exponent):
    """(a - b) 2^exponent as a float, correct to some units in the last place."""
    x = 0.0
    for d in range(len(a) - 1, -1, -1):
        x = x * (MASK + 1.0) + float(a[d] - b[d])
        if abs(x) >= FULL:
            return math.ldexp(x, BASE * d - BITS + exponent)
    return math.ldexp(x, exponent - BITS)


@kernel
def _carry(x):
    for d in range(len(x) - 1):
        x[d + 1] += x[d] >> BASE
        x[d] &= MASK
