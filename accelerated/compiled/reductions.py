"""Sums and maxima that LLVM may vectorise: it reorders floating-point operations only if each one allows it.

Only these operations allow it (no fastmath: nan, inf and signed zeros keep their meaning). The order of a sum then
depends on the processor's vector width, so its last bits may differ between kinds of processors.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["maximum", "only_if", "plus"]


@intrinsic
def plus(typingctx, total, x):
    """total + x, to be added in any order."""

    def generate(context, builder, signature, arguments):
        return builder.fadd(*arguments, flags=("reassoc",))

    return types.float64(types.float64, types.float64), generate


@intrinsic
def maximum(typingctx, x, y):
    """The larger of two numbers; nan if either is nan."""
    double = ir.DoubleType()

    def generate(context, builder, signature, arguments):
        function = builder.module.declare_intrinsic("llvm.maximum", [double], ir.FunctionType(double, [double] * 2))
        return builder.call(function, arguments)

    return types.float64(types.float64, types.float64), generate


@intrinsic
def only_if(typingctx, condition, x):
    """x if the condition holds, else 0: a select instruction, never a branch."""

    def generate(context, builder, signature, arguments):
        return builder.select(*arguments, ir.Constant(ir.DoubleType(), 0.0))

    return types.float64(types.boolean, types.float64), generate
