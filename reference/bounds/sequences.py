"""The sequences alpha_k and beta_k of the Casimir algorithm. Source: Pillutla et al., Algorithm 4."""

from __future__ import annotations

from math import hypot, sqrt

from reference.bounds.arguments import of_floats

__all__ = ["momentum", "next_alpha"]


@of_floats
def next_alpha(alpha: float, lam: float, kappa: float, kappa_next: float) -> float:
    """The positive root alpha_k of equation (27) of the Casimir algorithm.

    alpha_k^2 (kappa_{k+1} + lam) = (1 - alpha_k) alpha_{k-1}^2 (kappa_k + lam) + alpha_k lam

    Parameters
    ----------
    alpha : float
        alpha_{k-1}, in (0, 1), with alpha_{k-1}^2 >= lam/(lam + kappa_k).
    lam : float
        Strength of the regulariser, >= 0.
    kappa, kappa_next : float
        kappa_k and kappa_{k+1}, with 0 < kappa_k <= kappa_{k+1}.

    Returns
    -------
    float
        alpha_k, in (0, alpha_{k-1}], with alpha_k^2 >= lam/(lam + kappa_{k+1}) (Lemma 21).

    Raises
    ------
    ValueError
        alpha outside (0, 1), lam < 0, kappa <= 0 or a decreasing kappa.

    Notes
    -----
    The root as printed in (74), with s^2 = c_k alpha_{k-1}^2 and b = s^2 - d_k: since b <= s^2 < s, the subtraction
    loses no digits. The square root is computed as a hypotenuse, so that nothing over- or underflows. The condition on
    alpha_{k-1}^2 is not checked: rounding may put the root of an exact equality slightly below it, and the root exists
    without it.

    Source
    ------
    Pillutla et al., (27), (74), Lemma 21.
    """
    _check(alpha, lam, kappa, kappa_next)
    s = sqrt((lam + kappa) / (lam + kappa_next)) * alpha
    b = s * s - lam / (lam + kappa_next)
    return (hypot(b, 2 * s) - b) / 2


@of_floats
def momentum(alpha: float, alpha_next: float, lam: float, kappa: float, kappa_next: float) -> float:
    """The weight beta_k of the extrapolation z_k = w_k + beta_k (w_k - w_{k-1}) of the Casimir algorithm.

    beta_k = alpha_{k-1} (1 - alpha_{k-1}) (kappa_k + lam) / (alpha_{k-1}^2 (kappa_k + lam) + alpha_k
    (kappa_{k+1} + lam))

    Parameters
    ----------
    alpha, alpha_next : float
        alpha_{k-1} and alpha_k, in (0, 1).
    lam : float
        Strength of the regulariser, >= 0.
    kappa, kappa_next : float
        kappa_k and kappa_{k+1}, with 0 < kappa_k <= kappa_{k+1}.

    Returns
    -------
    float
        beta_k, in [0, 1).

    Raises
    ------
    ValueError
        As :func:`next_alpha`.

    Source
    ------
    Pillutla et al., (28), (29).
    """
    _check(alpha, lam, kappa, kappa_next)
    c = (lam + kappa) / (lam + kappa_next)
    return c * (1 - alpha) / (c * alpha + alpha_next / alpha)


def _check(alpha: float, lam: float, kappa: float, kappa_next: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha: expected a number between 0 and 1, both excluded, got {alpha}")
    if not lam >= 0:
        raise ValueError(f"lam: expected a number >= 0, got {lam}")
    if not 0 < kappa <= kappa_next:
        raise ValueError(f"kappa, kappa_next: expected 0 < kappa <= kappa_next, got {kappa} and {kappa_next}")
