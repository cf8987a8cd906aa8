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
from reference.optimizers.base import traits
from reference.optimizers.nonnegative import clipped, constraint
from reference.smoothings import Entropy
from reference.structures.base import IntractableError, UnsupportedError
from reference.training.arguments import is_nonlinear
from reference.training.online_proximal import as_regularizer
from reference.training.result import UNCERTIFIED, Result, judged
from reference.weighted import Weighted

__all__ = ["SCALE", "advised", "certified", "scaling"]

STRENGTHS = 0.2 * 0.5 ** np.arange(8)  # of the smoothings, as shares of the objective
STEPS = 20  # of the search for s
MANY, APART = 200, 1e3  # iterations, and the ratio of the largest values of two features, that call for the advice
SCALE = "scale the features"


def advised(panel: ModuleType, result: Result, objective: Any, options: Mapping[str, Any]) -> Result:
    """The :func:`certified` result. If it has not converged, or took many iterations, its message says how far the
    features are from one scale, if they are far.
    """
    result = certified(panel, result, objective, options)
    if result.interrupted or (result.success and result.nit <= MANY):
        return result
    return replace(result, message=result.message + scaling(getattr(objective, "data", None)))


def scaling(data: Any) -> str:
    """The advice for these packed data; "" if their features are of one scale, or have no values."""
    rows = getattr(data, "rows", None)
    if rows is None or not len(rows.data):
        return ""
    largest = np.zeros(rows.width)
    np.maximum.at(largest, host(rows.indices), np.abs(host(rows.data)))
    # intercepts and transitions are features of value 1
    least, most = min(np.min(largest[largest > 0], initial=1.0), 1.0), max(np.max(largest), 1.0)
    if most <= APART * least:
        return ""
    return f"; the largest values of the features, intercepts included, range from {least:.3g} to {most:.3g}: {SCALE}"


def certified(panel: ModuleType, result: Result, objective: Any, options: Mapping[str, Any]) -> Result:
    """The result of an optimiser run with these options. If it is not certified and its problem has a dual, it gets the
    duality gap as its certificate, and is judged by it.
    """
    done, uncertified, _ = result.message.partition(UNCERTIFIED)
    if not uncertified or is_nonlinear(objective):
        return result
    try:
        gap = _gap(panel, result, objective, options)
    except (UnsupportedError, IntractableError):
        return result
    if not np.isfinite(gap):
        return result
    success, message = judged(done, gap, result.fun, None)
    return replace(result, certificate=gap, success=success, message=message)


def _gap(panel: ModuleType, result: Result, objective: Any, options: Mapping[str, Any]) -> float:
    """A bound on the objective minus its minimum; inf if there is none, or if the options are of another objective."""
    x, mu, lam = host(result.x).astype(np.float64), options.get("mu"), options.get("lam") or 0.0
    regularizer = options.get("regularizer")
    if options.get("project") is not None or (regularizer is None and lam == 0):
        return np.inf
    if regularizer is None:
        penalty, free = 0.5 * lam * squared_norm(x), constraint(objective)
    else:
        regularizer, sigma = as_regularizer(regularizer), options.get("sigma") or 0.0
        penalty = float(regularizer.value(x)) + 0.5 * sigma * squared_norm(x)

    def conjugate(g: np.ndarray) -> Callable[[float], float]:
        """R*(-s g) as a function of s."""
        if regularizer is None:
            square = squared_norm(clipped(-g, free)) / (2 * lam)
            return lambda s: s * s * square
        return lambda s: _conjugate(regularizer, sigma, -s * g)

    bounds: list[float] = []
    for value, c, g in _planes(panel, objective, result, x, mu):
        if not bounds and not np.isclose(value + penalty, result.fun, rtol=1e-5, atol=0.0):
            return np.inf
        bounds.append(_highest(c, conjugate(g), _is_nonnegative(objective, mu)))
        if len(bounds) > 2 and bounds[-1] < bounds[-2]:  # as a function of the smoothing it rises, then falls
            break
    return max(result.fun - max(bounds), 0.0)


def _planes(
    panel: ModuleType, objective: Any, result: Result, x: np.ndarray, mu: float | None
) -> Iterator[tuple[float, float, np.ndarray]]:
    """F(x) or a smoothing of it, and c and g of planes below F; F itself comes first."""
    if _is_smooth(objective, mu):
        value, g = objective.value_and_gradient(result.x, None, mu)
        g = host(g).astype(np.float64)
        yield value, value - float(g @ x), g
        return
    smoothed = _smoothed(panel, objective)
    for strength in [0.0, *STRENGTHS] if smoothed is not None and result.fun > 0 else [0.0]:
        loss = objective if strength == 0 else smoothed
        value, g, task_loss, _ = loss.linearize(result.x, None, strength * result.fun)
        yield value, task_loss, host(g).astype(np.float64)


def _is_smooth(objective: Any, mu: float | None) -> bool:
    """Whether F is no hinge, or one that is smoothed at mu."""
    return not traits(objective).hinge or (objective.mu if mu is None else mu) > 0


def _is_nonnegative(objective: Any, mu: float | None) -> bool:
    """Whether F >= 0: the hinge, its smoothing by entropy, and the log loss."""
    return not _is_smooth(objective, mu) or isinstance(traits(objective).smoothing, Entropy)


def _smoothed(panel: ModuleType, objective: Any) -> Any:
    """The hinge with a smoothing; None if its structure has neither sums nor K best outputs."""
    hinge = objective.objective if isinstance(objective, Weighted) else objective
    for smoothing in (panel.smoothings.Entropy(), panel.smoothings.TopK(5)):
        try:
            smoothed = type(hinge)(hinge.model, hinge.data, smoothing=smoothing)
        except (AttributeError, TypeError, UnsupportedError, IntractableError):
            continue
        return type(objective)(smoothed, objective.weights) if hinge is not objective else smoothed
    return None


def _conjugate(regularizer: Any, sigma: float, z: np.ndarray) -> float:
    """The conjugate of R + sigma/2 ||.||^2 at z; inf if it has no closed form."""
    try:
        value = float(regularizer.conjugate(z))
    except (TypeError, ValueError):
        return np.inf
    if sigma == 0:
        return value
    w = regularizer.prox(z / sigma, 1.0 / sigma)  # attains the maximum of <z, w> - R(w) - sigma/2 ||w||^2
    return float(z @ w - regularizer.value(w)) - 0.5 * sigma * squared_norm(w)


def _highest(c: float, conjugate: Callable[[float], float], shrinks: bool) -> float:
    """max_s s c - conjugate(s), a concave function, over [0, 1]; at s = 1 alone unless ``shrinks``."""

    def dual(s: float) -> float:
        return s * c - conjugate(s)

    if not shrinks:
        return dual(1.0)
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if dual(a) >= dual(b) else (a, high)
    return max(dual(low), dual(1.0))
