"""One step of the prox-linear algorithm: Pillutla et al., section 6, appendix D.5.

F(.; w) is F with its scores linearised about w, F_eta(z; w) = F(z; w) + ||z - w||^2/(2 eta).
"""

from __future__ import annotations

from array_api_compat import array_namespace

from reference.arrays import Array, floats

__all__ = ["inexactness_slack", "linearization_slack", "prox_linear_descent_slack"]


def linearization_slack(value: float, model: float, z: Array, L: float) -> float:
    """(L/2) ||z||^2 - |F(w + z) - F(w + z; w)|, where every augmented score is L-smooth.

    The augmented score psi(y) = score(y) + loss(y) - score(y_i) contains the true output's score, so that L is that of
    a difference of scores.

    Source: Pillutla et al., Lemma 34.
    """
    return L / 2 * _square(z) - abs(value - model)


def inexactness_slack(v: Array, *, lam: float, eta: float, tolerance: float) -> float:
    """2 (lam + 1/eta) tolerance - ||v||^2: where this is >= 0, v a subgradient of F_eta at w, the gap there is at most
    the tolerance.

    Source: Pillutla et al., section 6.1.1, *corrected*: printed (lam + 1/eta) ||v||^2 <= tolerance.
    """
    return 2 * (lam + 1 / eta) * tolerance - _square(v)


def prox_linear_descent_slack(
    before: float, after: float, w: Array, exact: Array, *, eta: float, tolerance: float
) -> float:
    """F(w_{k-1}) + tolerance - F(w_k) - (eta/2) ||prox-gradient||^2 for an inexact step with eta <= 1/L.

    ``w`` (d,) is w_{k-1}, ``exact`` (d,) the minimiser of F_eta(.; w_{k-1}). For a convex objective a sharper
    inequality holds.

    Source: Pillutla et al., Theorem 35; the sum over k is its bound.
    """
    return before + tolerance - after - _square(w, exact) / (2 * eta)


def _square(x: Array, y: Array | None = None) -> float:
    (x,) = floats(x=x)
    difference = x if y is None else x - floats(y=y)[0]
    return float(array_namespace(x).sum(difference * difference))
