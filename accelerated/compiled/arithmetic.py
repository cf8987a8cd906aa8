"""Scalar arithmetic that LLVM can vectorise: a fused multiply-add and an exponential without library calls."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from accelerated.kernel import inlined

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490  # 33 leading bits: k * LN2_HIGH is exact for |k| < 2**20
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
SMALLEST = -400.0  # exp is 0 below this: no denormal numbers, and far below what chain.LIMIT needs


@intrinsic
def muladd(typingctx, x, y, z):
    """x * y + z, fused where the processor can (LLVM's fmuladd): one rounding if fused, else two."""
    double = ir.DoubleType()

    def generate(context, builder, signature, arguments):
        fmuladd = builder.module.declare_intrinsic("llvm.fmuladd", [double], ir.FunctionType(double, [double] * 3))
        return builder.call(fmuladd, arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


@inlined
def exp(x):
    """e**x to 2.2 ulp for x <= 700; exactly 0 below SMALLEST, -inf included.

    x = k ln 2 + r with |r| <= ln(2) / 2 (Cody and Waite), with a Taylor polynomial of degree 12 in r, times 2**k by
    setting its bits.
    """
    shifted = muladd(x, LOG2_E, ROUND)
    k = shifted - ROUND
    r = muladd(k, -LN2_LOW, muladd(k, -LN2_HIGH, x))
    p = muladd(r, 1.0 / 479001600.0, 1.0 / 39916800.0)
    p = muladd(r, p, 1.0 / 3628800.0)
    p = muladd(r, p, 1.0 / 362880.0)
    p = muladd(r, p, 1.0 / 40320.0)
    p = muladd(r, p, 1.0 / 5040.0)
    p = muladd(r, p, 1.0 / 720.0)
    p = muladd(r, p, 1.0 / 120.0)
    p = muladd(r, p, 1.0 / 24.0)
    p = muladd(r, p, 1.0 / 6.0)
    p = muladd(r, p, 0.5)
    p = muladd(r, p, 1.0)
    p = muladd(r, p, 1.0)
    power = np.int64((np.float64(shifted).view(np.int64) << 52) + (1023 << 52)).view(np.float64)
    return p * power if x >= SMALLEST else 0.0
