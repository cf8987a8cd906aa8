"""The max over outputs and its smoothings: small objects that call the right method of a structure.

A smoothing is called with a structure and mu and returns value and gradient (shaped like the structure's scores);
mu = 0 is always the max itself. ``needs`` names the method of the structure that it calls when mu > 0. ``smoothed``
also returns whether the value is that of the smoothed max itself (True), or of an approximation from the best outputs
only.

With omega(u) = (||u||^2 - 1)/2, the max smoothed by squared l2 is max over u in the simplex of <psi, u> - mu omega(u):
its weights u are the projection of psi/mu onto the simplex, and most of them are 0. Source: Pillutla et al.,
Definitions 1 and 6, Propositions 3 and 4, Lemma 7.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from reference.arrays import Array, integer, real
from reference.bounds import entropy_width, squared_l2_width

__all__ = ["Entropy", "Max", "Smoothed", "SquaredL2", "TopK", "certified", "positive_mu", "top_k_weights"]


class Smoothed(NamedTuple):
    """value (...,) and gradient of a smoothed max; exact (...,) booleans: whether they are those of the named
    smoothing.
    """

    value: Any
    gradient: Any
    exact: Any


@dataclass(frozen=True)
class Max:
    """max_y psi(y); the gradient is the indicator of a best output's parts (a subgradient where outputs tie)."""

    needs = "best"

    def __call__(self, structure: Any, mu: float = 0.0) -> tuple[Any, Any]:
        if mu != 0:
            raise ValueError(f"mu: the max itself has no smoothing, expected 0, got {mu}")
        value, y = structure.best()
        return value, structure.parts(y)

    def smoothed(self, structure: Any, mu: float = 0.0) -> Smoothed:
        """Always exact."""
        return _exactly(*self(structure, mu))

    def width(self, outputs: int) -> float:
        """D such that the smoothed max over this number of outputs exceeds the max by at most mu D."""
        return 0.0


@dataclass(frozen=True)
class Entropy:
    """mu log sum_y exp(psi(y) / mu), between the max and the max + mu log m; the gradient is the marginals."""

    needs = "expectation"

    def __call__(self, structure: Any, mu: float = 1.0) -> tuple[Any, Any]:
        return Max()(structure) if mu == 0 else structure.expectation(mu)

    def smoothed(self, structure: Any, mu: float = 1.0) -> Smoothed:
        """Always exact."""
        return _exactly(*self(structure, mu))

    def width(self, outputs: int) -> float:
        """D such that the smoothed max over this number of outputs exceeds the max by at most mu D."""
        return entropy_width(outputs)


@dataclass(frozen=True)
class TopK:
    """max_u sum_{i <= K} u_i psi_(i) + (mu/2)(1 - ||u||^2), u in the simplex over the K best outputs.

    For any fixed K this is convex in the scores and lies between the max and the max + (mu/2)(1 - 1/K); its weights u
    are a feasible dual point. It has no gradient where the K-th and the (K+1)-th score tie while u_K > 0; the gradient
    returned there depends on how the tie is broken. The gradient is therefore not Lipschitz, and finite differences
    need points away from such ties. Where :func:`certified`, it equals the max smoothed by squared l2 over all outputs.

    Parameters
    ----------
    k : int >= 1
        Number of outputs K; may exceed the number of outputs.

    Source
    ------
    Pillutla et al., section 4.1 and Algorithm 6, *corrected*: the value carries sum_k u_k psi(y_k) and mu/2
    (1 - ||u||^2).
    """

    k: int
    needs = "topk"

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", integer("k", self.k, 1))

    def __call__(self, structure: Any, mu: float = 1.0) -> tuple[Any, Any]:
        if mu == 0:
            return Max()(structure)
        best = structure.topk(self.k)
        value, u = top_k_weights(best.scores, mu)
        return value, structure.expected_parts(best.labels, u)

    def smoothed(self, structure: Any, mu: float = 1.0) -> Smoothed:
        """exact: whether Proposition 4 certifies that more outputs would change nothing. Calls ``topk(K + 1)``."""
        return Max().smoothed(structure) if mu == 0 else _from_best(structure, self.k, mu)

    def width(self, outputs: int) -> float:
        """D such that the smoothed max over this number of outputs exceeds the max by at most mu D."""
        return squared_l2_width(min(self.k, outputs))


@dataclass(frozen=True)
class SquaredL2:
    """max_u <psi, u> + (mu/2)(1 - ||u||^2) over the simplex of all outputs; between the max and the
    max + (mu/2)(1 - 1/m).

    Exact for listed outputs. For other structures the best outputs are computed, two at first and then twice as many,
    until Proposition 4 certifies that the others have weight 0 (:func:`certified`), or ``max_k`` is reached: then the
    result is that of ``TopK(max_k)``, and ``exact`` is False. If all scores tie, as at w = 0, no K below the number of
    outputs is certified.

    Parameters
    ----------
    max_k : int >= 1
        The maximum number of outputs.

    Source
    ------
    Pillutla et al., section 2.3.1, Propositions 3 and 4; growing K is not in the paper.
    """

    max_k: int = 64
    needs = "topk"

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_k", integer("max_k", self.max_k, 1))

    def __call__(self, structure: Any, mu: float = 1.0) -> tuple[Any, Any]:
        value, gradient, _ = self.smoothed(structure, mu)
        return value, gradient

    def smoothed(self, structure: Any, mu: float = 1.0) -> Smoothed:
        """exact: whether the K reached is certified."""
        if mu == 0:
            return Max().smoothed(structure)
        k = structure.listed or min(2, self.max_k)
        while True:
            answer = _from_best(structure, k, mu)
            if k >= self.max_k or _all(answer.exact):
                return answer
            k = min(2 * k, self.max_k)

    def width(self, outputs: int) -> float:
        """D such that the smoothed max over this number of outputs exceeds the max by at most mu D."""
        return squared_l2_width(outputs)


def top_k_weights(psi: Array, mu: float) -> tuple[Array, Array]:
    """Value and weights of the max smoothed by squared l2, from scores sorted from high to low.

    value = sum_i u_i psi_i + (mu/2)(1 - ||u||^2), u = the projection of psi/mu onto the simplex:
    u_i = max(0, (psi_i - psi_1)/mu - tau), with tau such that they sum to 1

    Parameters
    ----------
    psi : array (..., K)
        Not increasing along the last axis; -inf (no such output) gets weight 0.
    mu : float > 0

    Returns
    -------
    value : array (...,)
        -inf where all entries are.
    u : array (..., K)
        All 0 where all entries are -inf; nan where the first is nan or inf.

    Source
    ------
    Pillutla et al., Proposition 3 (with z_(m+1) = -inf) and Lemma 7 (iii), *corrected*: u projects the K scores over
    mu.
    """
    xp = array_namespace(psi)
    mu = positive_mu(mu, float(xp.finfo(psi.dtype).smallest_normal))
    possible = psi[..., :1] > -xp.inf
    top = xp.where(possible, psi[..., :1], 0.0)
    # an output more than mu below the best has weight 0, so that z = -1 may stand for all of them, -inf included
    near = psi >= top - mu
    z = xp.where(near, (xp.where(near, psi, top) - top) / mu, -1.0)
    z = xp.where(z > -1, z, -1.0)
    count = xp.astype(xp.arange(1, psi.shape[-1] + 1, dtype=xp.int64, device=device(psi)), psi.dtype)
    sums = xp.cumulative_sum(z, axis=-1)
    support = xp.sum(xp.astype(1 + count * z > sums, xp.int64), axis=-1, keepdims=True)  # a prefix, as z falls
    tau = (xp.take_along_axis(sums, support - 1, axis=-1) - 1) / xp.astype(support, psi.dtype)
    u = xp.where(possible & (z > tau), z - tau, 0.0)
    u = xp.where(psi[..., :1] < xp.inf, u, xp.nan)
    value = psi[..., 0] + mu * (xp.sum(u * z, axis=-1) + (1 - xp.sum(u * u, axis=-1)) / 2)
    return value, u


def certified(psi: Array, k: int, mu: float) -> Array:
    """Whether the k best of all outputs give the max smoothed by squared l2 exactly: booleans (...,).

    mu <= sum_{i <= k} (psi_i - psi_{k+1}), or there are at most k outputs

    Parameters
    ----------
    psi : array (..., K)
        Scores sorted from high to low, -inf where there are no more outputs; K > k, or all outputs.
    k : int
    mu : float > 0

    Notes
    -----
    A bound on the rounding error is subtracted from the sum, so that True holds for the exact numbers: (k + 2) eps
    times the sum, and eps times the largest score for each term.

    Source
    ------
    Pillutla et al., Proposition 4, equation (12); it is an equivalence.
    """
    xp = array_namespace(psi)
    if psi.shape[-1] <= k:
        return xp.ones(psi.shape[:-1], dtype=xp.bool, device=device(psi))
    best, following = psi[..., :k], psi[..., k : k + 1]
    more = following[..., 0] > -xp.inf
    inside = more[..., None] & (best > -xp.inf)
    gap = xp.where(inside, best, 0.0) - xp.where(inside, following, 0.0)
    average = xp.sum(gap / k, axis=-1)  # not the sum, which may overflow
    largest = xp.max(xp.where(inside, xp.abs(best), 0.0), axis=-1)
    eps = float(xp.finfo(psi.dtype).eps)
    return (average - eps * ((k + 2) * average + largest) >= mu / k) | xp.logical_not(more)


def positive_mu(mu: float, least: float = sys.float_info.min) -> float:
    """``mu`` as a float, checked to be a finite positive temperature of at least ``least``."""
    mu = real("mu", mu)
    if not (mu >= least and math.isfinite(mu)):
        raise ValueError(f"mu: expected a finite number > 0 (not subnormal), got {mu}")
    return mu


def _from_best(structure: Any, k: int, mu: float) -> Smoothed:
    """The top-K strategy with its certificate."""
    best = structure.topk(k if structure.listed == k else k + 1)
    value, u = top_k_weights(best.scores[..., :k], mu)
    batch = (slice(None),) * (best.scores.ndim - 1)
    labels = best.labels[(*batch, slice(k), ...)]
    return Smoothed(value, structure.expected_parts(labels, u), certified(best.scores, k, mu))


def _exactly(value: Any, gradient: Any) -> Smoothed:
    if not hasattr(value, "ndim"):
        return Smoothed(value, gradient, True)
    xp = array_namespace(value)
    return Smoothed(value, gradient, xp.ones(value.shape, dtype=xp.bool, device=device(value)))


def _all(exact: Any) -> bool:
    return bool(array_namespace(exact).all(exact)) if hasattr(exact, "ndim") else bool(exact)
