"""Kernels by name, for model files and the option ``--kernels``.

    linear  quadratic  gaussian[:SIGMA2]  polynomial:DEGREE  spline[:SHARE]  explicit  a+b+c (their average)

linear, quadratic, polynomial and explicit have a unit diagonal, as in Martins et al. (2010); by default sigma^2 is 5
and the spline's share of zeros 0.95.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from reference.kernels import B1Spline, Explicit, Gaussian, Kernel, Linear, Mean, Polynomial

__all__ = ["NAMES", "check_names", "described", "named", "restored"]

KINDS = {kind.__name__: kind for kind in (B1Spline, Explicit, Gaussian, Linear, Mean, Polynomial)}
NAMES = {"linear": None, "quadratic": None, "gaussian": 5.0, "polynomial": None, "spline": 0.95, "explicit": None}


def described(group: Any) -> list[Any]:
    """A kernel or explicit group as [name, options], for JSON.

    Raises
    ------
    TypeError
        A kernel of the user's or a precomputed matrix, which a file cannot describe.
    """
    name = type(group).__name__
    if KINDS.get(name) is not type(group):
        raise TypeError(f"groups: {name} cannot be saved; expected kernels among {', '.join(KINDS)}")
    if isinstance(group, Mean):
        return [name, [described(part) for part in group.parts]]
    return [name, {field.name: getattr(group, field.name) for field in fields(group)}]


def restored(description: Any) -> Any:
    """The inverse of :func:`described`. Raises ValueError, TypeError or KeyError for an invalid description."""
    name, options = description
    if name == "Mean":
        return Mean([restored(part) for part in options])
    return KINDS[name](**options)


def check_names(names: str) -> None:
    """Raise ValueError if --kernels has an unknown name."""
    named(names, None)


def named(names: str, X: Sequence[np.ndarray] | None) -> list[Kernel | Explicit]:
    """The groups that ``--kernels`` names. X, the training sequences, determines the width of a spline."""
    groups: list[Any] = []
    each = [name.strip() for name in names.split(",")]
    if twice := next((name for name in each if each.count(name) > 1), None):
        raise ValueError(f"--kernels: expected different kernels, got {twice} twice")
    for name in each:
        parts = [_one(part.strip(), X) for part in name.split("+")]
        if len(parts) > 1 and any(isinstance(part, Explicit) for part in parts):
            raise ValueError(f"--kernels: {name}: explicit is a group of its own; linear is the same kernel")
        groups.append(parts[0] if len(parts) == 1 else Mean(parts))
    return groups


def _one(text: str, X: Sequence[np.ndarray] | None) -> Any:
    name, colon, given = text.partition(":")
    if name not in NAMES:
        raise ValueError(f"--kernels: expected names among {', '.join(NAMES)}, got {text!r}")
    if bool(colon) and name in ("linear", "quadratic", "explicit"):
        raise ValueError(f"--kernels: {name} takes no number, got {text!r}")
    try:
        number = float(given) if colon else NAMES[name]
    except ValueError:
        raise ValueError(f"--kernels: expected a number after {name}:, got {given!r}") from None
    try:
        if name == "spline":
            if not 0 <= number < 1:  # type: ignore[operator]
                raise ValueError(f"share: expected a number in [0, 1), got {given}")
            if X is None:
                return B1Spline(1.0)
            return B1Spline.with_zeros(np.concatenate(X), number)  # type: ignore[arg-type]
        if name == "polynomial":
            if number is None or not math.isfinite(number) or number != int(number):
                raise ValueError(f"expected a degree, an integer >= 1, got {given!r}")
            return Polynomial(int(number))
        if name == "gaussian":
            return Gaussian(number)  # type: ignore[arg-type]
    except ValueError as problem:
        raise ValueError(f"--kernels: {text}: {problem}") from None
    return {"linear": Linear(True), "quadratic": Polynomial(2), "explicit": Explicit(True)}[name]
