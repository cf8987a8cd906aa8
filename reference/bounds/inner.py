"""Iterations of the inner solver of the Casimir algorithm. Source: Pillutla et al., sections 5.2.3 and 5.3,
appendix D.3.
"""

from __future__ import annotations

from math import inf, log, sqrt

from reference.bounds.arguments import of_floats

__all__ = ["accuracy_iterations", "inner_iterations", "log_rate_iterations", "svrg_cost", "svrg_rate"]


@of_floats
def accuracy_iterations(tau: float, C: float, ratio: float) -> float:
    """Expected iterations of a linearly convergent method until its gap is at most a fraction of the gap at the start.

    E[T] <= (1/tau) log(2 C ratio / tau) + 1  where E[gap after t] <= C (1 - tau)^t gap_0  and ratio = gap_0 / accuracy

    Parameters
    ----------
    tau : float
        Rate, in (0, 1).
    C : float >= 1
        Constant in front.
    ratio : float
        gap_0 / accuracy > 0.

    Returns
    -------
    float
        0 if the start is accurate enough.

    Raises
    ------
    ValueError
        tau or C out of range, a ratio that is not positive.

    Notes
    -----
    By Markov's inequality P(T > t) <= min(1, C (1 - tau)^t ratio), and these sum to at most the bound less 1/2.

    Source
    ------
    Pillutla et al., Lemma 49 (from Lin et al., 2018), (57).
    """
    if not 0 < tau < 1:
        raise ValueError(f"tau: expected a rate between 0 and 1, both excluded, got {tau}")
    if not C >= 1:
        raise ValueError(f"C: expected a number >= 1 (the bound holds at the start), got {C}")
    if not ratio > 0:
        raise ValueError(f"ratio: expected a number > 0, got {ratio}")
    return log(2 * C * ratio / tau) / tau + 1 if ratio > 1 else 0.0


@of_floats
def inner_iterations(tau: float, C: float, *, L: float, kappa: float, delta: float) -> float:
    """Expected iterations of the inner solver, started at z, until its point satisfies the relative accuracy (26).

    E[T] <= (1/tau) log(8 C (L + kappa) / (tau kappa delta)) + 1

    Parameters
    ----------
    tau, C : float
        Rate and constant of the solver on functions that are (L + kappa)-smooth and (lam + kappa)-strongly convex.
    L : float
        Smoothness of F_mu, the regulariser's lam included.
    kappa : float > 0
    delta : float
        Relative accuracy, in [0, 1); inf iterations at 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        Arguments out of range.

    Source
    ------
    Pillutla et al., Proposition 27; ||w - z|| in (83) is the distance of the solver's point.
    """
    if not (kappa > 0 and L >= 0 and 0 <= delta < 1):
        raise ValueError(f"expected L >= 0, kappa > 0 and delta in [0, 1), got {L}, {kappa} and {delta}")
    return accuracy_iterations(tau, C, 4 * (L + kappa) / kappa / delta) if delta > 0 else inf


@of_floats
def svrg_rate(L: float, lam: float, n: int) -> tuple[float, float]:
    """Rate tau and constant C of SVRG on n functions that are L-smooth, with a lam-strongly convex mean.

    tau = 1/(8 L/lam + n),  C = (L/lam) (1 + n (L/lam)/(8 L/lam + n))

    Parameters
    ----------
    L : float
        Smoothness of each function, not of their mean; >= lam.
    lam : float > 0
    n : int >= 1

    Returns
    -------
    tau, C : float

    Raises
    ------
    ValueError
        lam > L, lam <= 0, n < 1.

    Source
    ------
    Pillutla et al., appendix D.4, citing Hofmann et al. (2015), who prove it.
    """
    if not (0 < lam <= L and n >= 1):
        raise ValueError(f"expected 0 < lam <= L and n >= 1, got lam = {lam}, L = {L}, n = {n}")
    condition = L / lam
    return 1 / (8 * condition + n), condition * (1 + n / (8 + n / condition))


@of_floats
def svrg_cost(kappa: float, *, lam: float, A: float, mu: float, n: int) -> float:
    """Work of Casimir with SVRG inside, up to constants and logarithms; ``Corollary17.for_svrg`` minimises it.

    (1/sqrt(q)) (n + A/(mu (lam + kappa))),  q = lam/(lam + kappa)

    Parameters
    ----------
    kappa : float >= 0
    lam : float > 0
    A : float
        Largest squared norm of an example's map.
    mu : float > 0
    n : int

    Returns
    -------
    float

    Notes
    -----
    Least at lam + kappa = A/(mu n). For A/(mu n) between 2 lam and 4 lam the paper still takes kappa = lam,
    at most 3/sqrt(8) = 1.06 times the least.

    Source
    ------
    Pillutla et al., proof of Proposition 29.
    """
    return sqrt((lam + kappa) / lam) * (n + A / mu / (lam + kappa))


@of_floats
def log_rate_iterations(accuracy: float) -> float:
    """A number from which on log(k)/k <= accuracy holds for every k.

    k >= max(1, (2/accuracy) log(2/accuracy))

    Parameters
    ----------
    accuracy : float > 0

    Returns
    -------
    float

    Raises
    ------
    ValueError
        accuracy <= 0.

    Source
    ------
    Pillutla et al., Lemma 54, for k >= 1.
    """
    if not accuracy > 0:
        raise ValueError(f"accuracy: expected a number > 0, got {accuracy}")
    return max(1.0, 2 / accuracy * log(2 / accuracy))
