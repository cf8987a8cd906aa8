"""Bounds of multi-sample dual updates: the increase of the dual, the norm of subgradients, the regret.

Source: Branson et al. (2013), supplement, section 2, *corrected*: losses up to ``largest_loss``, where the paper
assumes 1.
"""

from __future__ import annotations

from math import inf, log, sqrt

from reference.bounds.arguments import of_floats

__all__ = ["dual_increase", "online_regret", "subgradient_norm"]


@of_floats
def dual_increase(value: float, squared_gradient: float, lam: float, t: int) -> float:
    """A lower bound on the increase of D_t by step t: f(w^{t-1}; Z_t) - ||g||^2 / (2 lam t).

    Parameters
    ----------
    value : float
        f(w^{t-1}; Z_t) = lam/2 ||w^{t-1}||^2 + the hinge of the example.
    squared_gradient : float
        ||g||^2 with g = lam w^{t-1} + v_t(y), where y is the best loss-augmented output at w^{t-1} and is among the
        samples.
    lam : float
        > 0.
    t : int
        >= 1: blocks after the step.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        lam not > 0, t < 1.

    Source
    ------
    Branson et al., Lemma 2.2 (statement, first and last line; in the third line, the factor of ||w||^2 is lam
    (t-1)/(2t), not (lam t - 2 lam)/(2t)).
    """
    _check(lam, t)
    return value - squared_gradient / (2.0 * lam * t)


@of_floats
def subgradient_norm(lam: float, radius: float, largest_loss: float = 1.0) -> float:
    """G = sqrt(lam largest_loss) + 2 radius, an upper bound on ||lam w + v_t(y)|| where lam ||w||^2 <= largest_loss.

    Parameters
    ----------
    lam : float
        > 0.
    radius : float
        R >= ||phi(x, y)|| for all outputs.
    largest_loss : float
        max_{i, y} loss_i(y), >= 0.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        lam not > 0, a radius or loss < 0.

    Source
    ------
    Branson et al., Lemma 2.5, *corrected*.
    """
    _check(lam, 1)
    if not (0 <= radius < inf and 0 <= largest_loss < inf):
        raise ValueError(f"radius, largest_loss: expected finite numbers >= 0, got {radius} and {largest_loss}")
    return sqrt(lam * largest_loss) + 2.0 * radius


@of_floats
def online_regret(lam: float, gradient: float, steps: int) -> float:
    """G^2 (log T + 1) / (2 lam T): bound on the mean of f(w^{t-1}; Z_t) over T steps less min F_T / T.

    Parameters
    ----------
    lam : float
        > 0.
    gradient : float
        G of :func:`subgradient_norm`.
    steps : int
        T >= 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        lam not > 0, T < 1.

    Notes
    -----
    It also bounds the mean task loss of the predictions during the run (Theorem 2.1.1, with Lemma 2.6) and, after
    complete passes, F_n at the mean of w^0, ..., w^{T-1} (Theorem 2.1.3). It is not proved for the last iterate, which
    Theorem 2.1.2 claims.

    Source
    ------
    Branson et al., Lemma 2.4 and Theorem 2.1.
    """
    _check(lam, steps)
    return gradient**2 * (log(steps) + 1.0) / (2.0 * lam * steps)


def _check(lam: float, t: int) -> None:
    if not 0 < lam < inf:
        raise ValueError(f"lam: expected a finite number > 0, got {lam}")
    if t < 1:
        raise ValueError(f"steps: expected at least 1, got {t}")
