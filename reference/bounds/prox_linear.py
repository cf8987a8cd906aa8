"""Bounds of the prox-linear algorithm. Source: Pillutla et al., section 6, appendix D.6."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log, sqrt

from reference.bounds.arguments import of_floats

__all__ = ["prox_linear_steps", "prox_linear_work", "stationarity"]


@of_floats
def stationarity(eta: float, gap: float, tolerances: Sequence[float]) -> float:
    """Bound on the least ||prox-gradient||^2 among the starting points of K inexact prox-linear steps.

    min_{k < K} ||rho_eta(w_k)||^2 <= (2/(eta K)) (F(w_0) - F* + sum_{k <= K} eps_k)

    Parameters
    ----------
    eta : float > 0
        Step length, at most 1/L.
    gap : float >= 0
        F(w_0) - F*.
    tolerances : sequence of float >= 0
        eps_1, ..., eps_K.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        Arguments out of range; no tolerances.

    Source
    ------
    Pillutla et al., Theorem 35 and Remark 36 (from Drusvyatskiy and Paquette, 2018).
    """
    if not (eta > 0 and gap >= 0 and len(tolerances) > 0 and min(tolerances) >= 0):
        raise ValueError(
            f"expected eta > 0, gap >= 0 and tolerances >= 0, one at least, got {eta}, {gap} and {tolerances}"
        )
    return 2.0 / (eta * len(tolerances)) * (gap + sum(tolerances))


@of_floats
def prox_linear_steps(accuracy: float, eta: float, gap: float, eps_0: float) -> int:
    """Number of steps until the norm of the prox-gradient is at most ``accuracy`` at one of them, with eps_k = eps_0/k.

    K >= (2/a) log(2/a), a = eta accuracy^2 / (2 (gap + 4 eps_0)), and K >= 3

    Parameters
    ----------
    accuracy : float > 0
    eta : float > 0
    gap : float >= 0
        F(w_0) - F*, or an upper bound on it. If task losses are >= 0, then F >= 0, and F(w_0) is such a bound.
    eps_0 : float > 0

    Returns
    -------
    int

    Raises
    ------
    ValueError
        Arguments out of range.

    Source
    ------
    Pillutla et al., proof of Proposition 37, *corrected*: the bound of Theorem 35 has to be at most accuracy^2. Remark
    38 for the bound on the gap.
    """
    if not (accuracy > 0 and eta > 0 and gap >= 0 and eps_0 > 0):
        raise ValueError(f"expected accuracy, eta and eps_0 > 0 and gap >= 0, got {accuracy}, {eta}, {eps_0} and {gap}")
    a = eta * accuracy**2 / (2 * (gap + 4 * eps_0))
    return max(3, ceil(2 / a * log(2 / a)))


@of_floats
def prox_linear_work(steps: int, *, n: int, eta: float, A: float, D: float, eps_0: float) -> float:
    """SVRG steps for ``steps`` subproblems with eps_k = eps_0/k, up to constants and logarithms.

    sum_{k <= K} n + sqrt(eta A D n / eps_k)

    Parameters
    ----------
    steps : int >= 0
        K.
    n : int
        Number of examples.
    eta : float > 0
        1/eta is the strong convexity of the subproblems.
    A : float
        Largest squared norm of an example's Jacobian.
    D : float
        D of the smoothing: 0 <= h_mu - max <= mu D.
    eps_0 : float > 0

    Returns
    -------
    float

    Source
    ------
    Pillutla et al., proof of Proposition 37, by Proposition 29.
    """
    return sum(n + sqrt(eta * A * D * n * k / eps_0) for k in range(1, steps + 1))
