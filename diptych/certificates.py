"""What learners and commands add to a result: the duality gap where the optimiser (``sgd``, ``online_proximal``)
computes none, and the advice to scale the features.

An oracle's answer at w is a plane below a convex loss, F(v) >= c + <g, v>. If F >= 0, then F >= s (c + <g, .>) for each
s in [0, 1], too, and F + R has the lower bound max_s s c - R*(-s g). The hinge has a plane for each strength of a
smoothing: the best bound of a few counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from reference.arrays import host, squared_norm
from reference.optimizers.base import traits, value_of
from reference.optimizers.nonnegative import clipped
from reference.prox.composite import as_regularizer
from reference.smoothings import Entropy
from reference.structures.base import IntractableError, UnsupportedError
from reference.training.result import UNCERTIFIED, Result, judged, padded
from reference.weighted import Weighted

STRENGTHS = 0.2 * 0.5 ** np.arange(8)  # of the smoothings, as shares of the objective
STEPS = 20  # of the search for s
MANY, APART = 200, 1e3  # iterations, and the ratio of the largest values of two features, that call for the advice
SCALE = "scale the features"


def advised(panel: ModuleType, result: Result, objective: Any, options: Mapping[str, Any]) -> Result:
    """The :func:`certified` result, with the advice in its message if it has not converged or took many iterations."""
    try:
        result = certified(panel, result, objective, options)
    except KeyboardInterrupt:
        message = f"{result.message}; interrupted while its duality gap was computed"
        return replace(result, success=False, interrupted=True, message=message)
    if result.interrupted or (result.success and result.nit <= MANY):
        return result
    return replace(result, message=result.message + scaling(getattr(objective, "data", None)))


def scaling(data: Any) -> str:
    """The advice for these packed data; "" if their features are of one scale, or have no values."""
    rows = getattr(data, "rows", None)
    largest = np.zeros(0 if rows is None else rows.width)
    if rows is not None:
        np.maximum.at(largest, host(rows.indices), np.abs(host(rows.data)))
    # intercepts and transitions are features of value 1
    least, most = np.min(largest[largest > 0], initial=1.0), np.max(largest, initial=1.0)
    if most <= APART * least:
        return ""
    return f"; the largest values of the features, intercepts included, range from {least:.3g} to {most:.3g}: {SCALE}"


def certified(panel: ModuleType, result: Result, objective: Any, options: Mapping[str, Any]) -> Result:
    """The result of an optimiser run with these options. If it is not certified and its problem has a dual, it gets the
    duality gap as its certificate, and is judged by it.
    """
    done, uncertified, _ = result.message.partition(UNCERTIFIED)
    if not uncertified or not traits(objective).convex or options.get("project") is not None or options.get("sigma"):
        return result
    mu, lam, w = options.get("mu"), options.get("lam") or 0.0, host(result.x).astype(np.float64)
    if (regularizer := options.get("regularizer")) is not None:
        regularizer = as_regularizer(regularizer)
    elif lam == 0:
        return result
    penalty = 0.5 * lam * squared_norm(w) if regularizer is None else float(regularizer.value(w))
    smooth = not traits(objective).hinge or (objective.mu if mu is None else mu) > 0
    shrinks = not smooth or isinstance(traits(objective).smoothing, Entropy)  # F >= 0
    bounds: list[float] = []
    try:
        for value, c, g in _planes(panel, objective, result, mu) if not smooth else _plane(objective, result, mu):
            if not bounds and not np.isclose(value + penalty, result.fun, rtol=1e-5, atol=0.0):
                return result  # the options are of another objective
            bounds.append(_highest(c, _conjugate(regularizer, lam, g, traits(objective).nonnegative), shrinks))
            if len(bounds) > 2 and bounds[-1] < bounds[-2]:  # as a function of the smoothing it rises, then falls
                break
    except (TypeError, ValueError, UnsupportedError, IntractableError):  # no closed form of the conjugate, no oracle
        return result
    scale = value_of(objective, 0.0 * result.x, mu)  # the size of the losses that cancel in a small objective
    gap = padded(result.fun - max(bounds), result.fun, scale, result.x, objective.n)
    if gap is None or not np.isfinite(gap):
        return result
    success, message = judged(done, gap, result.fun, None)
    return replace(result, certificate=gap, success=success, message=message)


def _plane(objective: Any, result: Result, mu: float | None) -> Iterator[tuple[float, float, np.ndarray]]:
    """The value of a smooth F at the weights, and its tangent plane, c and g."""
    value, g = objective.value_and_gradient(result.x, None, mu)
    g = host(g).astype(np.float64)
    yield value, value - float(g @ host(result.x).astype(np.float64)), g


def _planes(
    panel: ModuleType, objective: Any, result: Result, mu: float | None
) -> Iterator[tuple[float, float, np.ndarray]]:
    """The same of a hinge, and then of its smoothings, of which entropy or else the five best outputs are supported."""
    hinge, weights = objective, None
    if isinstance(objective, Weighted):
        hinge, weights = objective.objective, objective.weights
    for strength in [0.0, *STRENGTHS]:
        if strength == STRENGTHS[0]:
            names = {"expectation": panel.smoothings.Entropy(), "topk": panel.smoothings.TopK(5)}
            kind = hinge.model.structure_type
            able = [name for name in names if kind.supports(name) and name not in getattr(kind, "intractable", {})]
            if not able or result.fun <= 0:
                return
            smoothed = type(hinge)(hinge.model, hinge.data, smoothing=names[able[0]])
            objective = smoothed if weights is None else type(objective)(smoothed, weights)
        value, g, task_loss, _ = objective.linearize(result.x, None, strength * result.fun)
        yield value, task_loss, host(g).astype(np.float64)


def _conjugate(regularizer: Any, lam: float, g: np.ndarray, free: slice | None) -> Callable[[float], float]:
    """R*(-s g) as a function of s; R is lam/2 ||.||^2, infinite for negative weights in the slice, unless given."""
    if regularizer is not None:
        return lambda s: float(regularizer.conjugate(-s * g))
    square = squared_norm(clipped(-g, free)) / (2 * lam)
    return lambda s: s * s * square


def _highest(c: float, conjugate: Callable[[float], float], shrinks: bool) -> float:
    """max_s s c - conjugate(s), a concave function, over [0, 1]; at s = 1 alone unless ``shrinks``."""
    low, high = 0.0 if shrinks else 1.0, 1.0
    for _ in range(STEPS if shrinks else 0):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if a * c - conjugate(a) >= b * c - conjugate(b) else (a, high)
    return max(low * c - conjugate(low), c - conjugate(1.0))
