"""Checks of the arguments of proxes, and the only function that writes into an array.

Computations are in float64 for every dtype, and are rounded once at the end. A value beyond the range is inf, never
nan.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from reference.arrays import Array, floats, number, refuse_nan_and_inf

__all__ = ["Point", "into", "not_empty", "number", "overflow_is_inf", "product", "slack"]

overflow_is_inf = np.errstate(over="ignore")  # a decorator: NumPy does not warn where inf is the answer


class Point(NamedTuple):
    """A checked argument (..., p): its namespace, its numbers in float64, the dtype of the result."""

    xp: Any
    x: Array
    dtype: Any

    @classmethod
    def of(cls, name: str, x: Any) -> Point:
        """Raise ValueError unless x has a last axis and finite numbers only."""
        (x,) = floats(**{name: x})
        xp = array_namespace(x)
        if x.ndim == 0:
            raise ValueError(f"{name}: expected shape (..., p), got ()")
        refuse_nan_and_inf(name, x, forbidden=False)
        return cls(xp, xp.astype(x, xp.float64, copy=False), x.dtype)

    def back(self, result: Array) -> Array:
        """A float64 result in the argument's dtype."""
        return self.xp.astype(result, self.dtype, copy=False)

    def send(self, numbers: np.ndarray) -> Array:
        """Host numbers, float64 or int64, on the device of x."""
        return self.xp.asarray(np.array(numbers), device=device(self.x))


def not_empty(name: str, point: Point) -> None:
    """Raise ValueError if the last axis is empty."""
    if point.x.shape[-1] == 0:
        raise ValueError(f"{name}: expected at least one number along the last axis, got shape {tuple(point.x.shape)}")


def product(a: float, b: float) -> float:
    """a b for scalars >= 0, clipped to the positive floats: never inf, and 0 only if a or b is 0."""
    return 0.0 if a == 0 or b == 0 else min(max(a * b, math.ulp(0.0)), sys.float_info.max)


def slack(point: Point) -> float:
    """The relative tolerance of membership in a set: 4096 machine epsilons of the argument's dtype."""
    return 4096.0 * float(point.xp.finfo(point.dtype).eps)


def into(out: Array | None, result: Array, *, name: str = "out") -> Array:
    """``result``, written into ``out`` if it is given."""
    if out is None:
        return result
    if type(out) is not type(result) or out.dtype != result.dtype or tuple(out.shape) != tuple(result.shape):
        raise ValueError(
            f"{name}: expected {type(result).__name__} of {result.dtype} and shape {tuple(result.shape)}, got "
            f"{type(out).__name__} of {getattr(out, 'dtype', None)} and shape {tuple(getattr(out, 'shape', ()))}"
        )
    try:
        out[...] = result
    except (TypeError, ValueError):
        raise TypeError(f"{name}: this {type(out).__module__} array cannot be written in place; omit out") from None
    return out
