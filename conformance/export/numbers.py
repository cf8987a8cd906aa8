"""Exact numbers and how they are written: rationals as "p/q", others to 50 digits, each beside its nearest float64."""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

__all__ = [
    "RELATIVE",
    "WORKING",
    "Array",
    "array",
    "indices",
    "log1p",
    "negative_exp",
    "number",
    "quotient",
    "root",
]

RELATIVE = 1e-13  # of all tolerances, relative to the sizes that ``document`` names
TRAPS = [decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]
WORKING = decimal.Context(prec=90, Emin=-999_999, Emax=999_999, rounding=decimal.ROUND_HALF_EVEN, traps=TRAPS)
SHOWN = decimal.Context(prec=50, Emin=-999_999, Emax=999_999, rounding=decimal.ROUND_HALF_EVEN, traps=TRAPS)
LARGEST_GAP = 10**6  # exp(-gap) beyond it is 0
Exact = Fraction | Decimal | float  # a float is -inf


@dataclass(frozen=True)
class Array:
    """Floats or integers in row-major order, as a file holds them."""

    shape: tuple[int, ...]
    values: list[Any]
    dtype: str = "float64"

    def __getitem__(self, index: Sequence[int]) -> Any:
        """An entry."""
        place = 0
        for size, i in zip(self.shape, index, strict=True):
            place = place * size + i
        return self.values[place]

    def tolist(self) -> list[Any]:
        """Lists in lists."""
        nested = self.values
        for width in self.shape[:0:-1]:
            nested = [nested[i : i + width] for i in range(0, len(nested), width)]
        return nested

    def written(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"shape": list(self.shape), self.dtype: [_plain(v) for v in self.values]}


def indices(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """All indices of a shape in row-major order."""
    return list(itertools.product(*map(range, shape)))


def number(value: Exact, tolerance: float) -> dict[str, Any]:
    """A scalar answer as JSON has it."""
    exact = {"digits": _digits(value)} if isinstance(value, Decimal) else {"rational": str(value)}
    return {"float64": _plain(float(value)), **exact, "tolerance": tolerance}


def array(shape: Sequence[int], values: Sequence[Exact], tolerance: float, kind: str = "rational") -> dict[str, Any]:
    """An array of answers as JSON has it, row-major; kind: "rational" or "digits"."""
    exact = [_digits(v) if kind == "digits" else str(v) for v in values]
    floats = [_plain(float(v)) for v in values]  # Python rounds rationals and decimals to the nearest
    return {"shape": list(shape), "float64": floats, kind: exact, "tolerance": tolerance}


def quotient(value: Fraction, context: decimal.Context = WORKING) -> Decimal:
    """A rational as a decimal, rounded once."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def root(value: Fraction) -> Fraction:
    """The square root: exact where it is rational, else to 90 digits."""
    scaled = value.numerator * value.denominator
    shift = 1 if math.isqrt(scaled) ** 2 == scaled else 10**90
    return Fraction(math.isqrt(scaled * shift * shift), value.denominator * shift)


def negative_exp(gap: Fraction) -> Decimal:
    """exp(-gap) of a gap >= 0."""
    return Decimal(0) if gap > LARGEST_GAP else WORKING.exp(-quotient(gap))


def log1p(r: Decimal) -> Decimal:
    """log(1 + r) of r >= 0 to more than 60 digits, also where 1 + r has lost them."""
    if r > Decimal("1e-20"):
        return WORKING.ln(WORKING.add(1, r))
    total, power = Decimal(0), r
    for j in range(1, 6):  # r - r^2/2 + ...: each term is 20 digits smaller
        total = WORKING.add(total, WORKING.divide(power, Decimal(j if j % 2 else -j)))
        power = WORKING.multiply(power, r)
    return total


def _digits(value: Fraction | Decimal) -> str:
    """50 significant digits, correctly rounded."""
    shown = SHOWN.plus(value) if isinstance(value, Decimal) else quotient(value, SHOWN)
    return str(shown) if shown else "0"


def _plain(value: Any) -> Any:
    """A number that JSON has: -inf is written as a string."""
    return "-inf" if value == -math.inf else value
