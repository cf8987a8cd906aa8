"""Bounds of the online proximal algorithm: the inequality of each round, the regret of a run, balls that contain the
optimum.

Regret_T = sum_t [L_t(w_t) + R(w_t)] - min_w sum_t [L_t(w) + R(w)], R >= 0 with R(0) = 0, w_1 = 0, G >= ||g_t|| for all
subgradients. Source: Martins et al. 2010, section 3.3 and appendix E.
"""

from __future__ import annotations

from math import log, sqrt

from reference.arrays import integer, number
from reference.bounds.arguments import of_floats

__all__ = [
    "gradient_norm",
    "optimum_radius",
    "regret_constant_step",
    "regret_decaying_step",
    "regret_strongly_convex",
    "round_bound",
]


@of_floats
def round_bound(
    comparator: float, squared_gradient: float, step_size: float, before: float, after: float, sigma: float = 0.0
) -> float:
    """Upper bound on L_t(w_t) + R(w_{t+1}): comparator + gamma/2 ||g||^2 + (before - after)/(2 gamma) - sigma/2 before.

    Parameters
    ----------
    comparator : float
        L_t(u) + R(u) of any u in the set.
    squared_gradient : float
        ||g_t||^2 >= 0; G^2 is also valid.
    step_size : float
        gamma > 0 of the round.
    before, after : float
        ||u - w_t||^2 and ||u - w_{t+1}||^2.
    sigma : float
        >= 0: L_t is sigma-strongly convex.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        A number that is not finite or too small.

    Source
    ------
    Martins et al., Lemma 4 (11) and (12): with several proxes, none may increase an earlier regularizer (shrinkages do
    not); with one prox there is no condition.
    """
    gamma = number("step_size", step_size, positive=True)
    for name, value in (("squared_gradient", squared_gradient), ("before", before), ("after", after), ("sigma", sigma)):
        number(name, value)
    return comparator + 0.5 * gamma * squared_gradient + (before - after) / (2.0 * gamma) - 0.5 * sigma * before


@of_floats
def regret_constant_step(rounds: int, step_size: float, gradient_norm: float, optimum_norm: float) -> float:
    """gamma T/2 G^2 + ||w*||^2 / (2 gamma) >= Regret_T for the constant step gamma.

    Parameters
    ----------
    rounds : int
        T >= 0.
    step_size : float
        gamma > 0; the bound is smallest at ||w*|| / (G sqrt(T)).
    gradient_norm, optimum_norm : float
        G and ||w*||, >= 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        A number that is not finite or too small.

    Source
    ------
    Martins et al., Proposition 5.1 (14).
    """
    gamma, norm = number("step_size", step_size, positive=True), number("optimum_norm", optimum_norm)
    return _rounds(rounds) * 0.5 * gamma * number("gradient_norm", gradient_norm) ** 2 + norm**2 / (2.0 * gamma)


@of_floats
def regret_decaying_step(rounds: int, step_size: float, gradient_norm: float, diameter: float) -> float:
    """(F^2 / (2 gamma_0) + G^2 gamma_0) sqrt(T) >= Regret_T for the steps gamma_0 / sqrt(t) within a set of diameter F.

    Parameters
    ----------
    rounds : int
        T >= 0.
    step_size : float
        gamma_0 > 0; the bound is smallest at F / (sqrt(2) G).
    gradient_norm, diameter : float
        G and F, >= 0; F = 2 gamma for the ball of radius gamma.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        A number that is not finite or too small.

    Source
    ------
    Martins et al., Proposition 5.2 (15).
    """
    gamma, G = number("step_size", step_size, positive=True), number("gradient_norm", gradient_norm)
    return (number("diameter", diameter) ** 2 / (2.0 * gamma) + G**2 * gamma) * sqrt(_rounds(rounds))


@of_floats
def regret_strongly_convex(rounds: int, sigma: float, gradient_norm: float) -> float:
    """G^2 (1 + log T) / (2 sigma) >= Regret_T for the steps 1/(sigma t), each L_t sigma-strongly convex.

    Parameters
    ----------
    rounds : int
        T >= 1.
    sigma : float
        > 0.
    gradient_norm : float
        G >= 0, of the subgradients of L_t with its sigma/2 ||w||^2.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        A number that is not finite or too small.

    Source
    ------
    Martins et al., Proposition 5.3 (16).
    """
    sigma = number("sigma", sigma, positive=True)
    return number("gradient_norm", gradient_norm) ** 2 * (1.0 + log(_rounds(rounds, 1))) / (2.0 * sigma)


@of_floats
def gradient_norm(largest: float, sigma: float = 0.0, radius: float = 0.0) -> float:
    """G = 2 largest + sigma radius >= ||g|| for all subgradients of hinge and log loss, with sigma/2 ||w||^2 added,
    where ||w|| <= radius.

    Parameters
    ----------
    largest : float
        max ||phi(x, y)|| over examples and outputs, >= 0.
    sigma, radius : float
        >= 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        A number that is not finite or below 0.

    Source
    ------
    Martins et al., Proposition 8.2, and 8.4 with any radius, such as that of :func:`optimum_radius`.
    """
    return 2.0 * number("largest", largest) + number("sigma", sigma) * number("radius", radius)


@of_floats
def optimum_radius(largest: float, lam: float, sigma: float = 0.0) -> float:
    """sqrt(largest / (lam + sigma)), an upper bound on ||w*|| for mean_i L_i + lam/2 (sum_k ||w_k||)^2 + sigma/2
    ||w||^2.

    Parameters
    ----------
    largest : float
        mean_i max_y loss_i(y) for the structural hinge, mean_i log |outputs of i| for the log loss; >= 0.
    lam, sigma : float
        >= 0, one of them > 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        A number that is not finite or below 0, lam + sigma not > 0.

    Source
    ------
    Martins et al., Proposition 8, *sharpened* (the printed radius is sqrt(2) times this one): along w* the objective
    has derivative 0, so that mean_i loss_i(y_i*) = mean_i L_i(w*) + lam (sum_k ||w*_k||)^2 + sigma ||w*||^2 at the
    maximisers y_i*, and L_i >= 0. For the log loss the left side is the entropy of the outputs under w*. *Corrected*:
    it is the entropy of the model, at most log |outputs|, not that of the true labels.
    """
    total = number("lam", lam) + number("sigma", sigma)
    return sqrt(number("largest", largest) / number("lam + sigma", total, positive=True))


def _rounds(rounds: int, least: int = 0) -> int:
    return integer("rounds", rounds, least)
