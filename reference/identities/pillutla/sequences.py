"""The scalar sequences of the Casimir algorithm: Pillutla et al., Lemmas 21, 49, 52, 53, 54 and Claim 23.

alpha and alpha_next are alpha_{k-1} and alpha_k, kappa and kappa_next kappa_k and kappa_{k+1}.
"""

from __future__ import annotations

from math import ceil, exp, log, log1p, sqrt

from reference.bounds import accuracy_iterations, log_rate_iterations, momentum

__all__ = [
    "alpha_residual",
    "alpha_slacks",
    "auxiliary",
    "auxiliary_residuals",
    "constant_kappa_slacks",
    "growing_kappa_slacks",
    "log_rate_slack",
    "markov_iterations",
    "markov_slack",
]


def alpha_residual(alpha: float, alpha_next: float, lam: float, kappa: float, kappa_next: float) -> float:
    """Equation (27), divided by kappa_{k+1} + lam.

    alpha_k^2 - ((1 - alpha_k) alpha_{k-1}^2 (kappa_k + lam) + alpha_k lam) / (kappa_{k+1} + lam)

    Source: Pillutla et al., (27).
    """
    c, d = (kappa + lam) / (kappa_next + lam), lam / (kappa_next + lam)
    return alpha_next * alpha_next - ((1 - alpha_next) * alpha * alpha * c + alpha_next * d)


def alpha_slacks(alpha: float, alpha_next: float, lam: float, kappa_next: float) -> tuple[float, float]:
    """alpha_{k-1} - alpha_k >= 0 and alpha_k^2 - lam/(lam + kappa_{k+1}) >= 0, if alpha_0^2 >= lam/(lam + kappa_1).

    Source: Pillutla et al., Lemma 21.
    """
    return alpha - alpha_next, alpha_next * alpha_next - lam / (lam + kappa_next)


def auxiliary(
    alpha: float, alpha_next: float, lam: float, kappa: float, kappa_next: float
) -> tuple[float, float, float]:
    """gamma_k = (kappa_k + lam) alpha_{k-1}^2, gamma_{k+1}, and eta_k = alpha_k gamma_k/(gamma_{k+1} + alpha_k
    gamma_k), k >= 1.

    Source: Pillutla et al., (35), (36).
    """
    gamma, gamma_next = (kappa + lam) * alpha * alpha, (kappa_next + lam) * alpha_next * alpha_next
    return gamma, gamma_next, alpha_next * gamma / (gamma_next + alpha_next * gamma)


def auxiliary_residuals(
    alpha: float, alpha_next: float, lam: float, kappa: float, kappa_next: float
) -> dict[str, float]:
    """Equations between alpha, beta, gamma and eta, by their numbers. Those that scale with kappa and lam are divided
    by kappa_{k+1} + lam.

    (38)  (1 - alpha_k) gamma_k = (kappa_{k+1} + lam) alpha_k^2 - lam alpha_k
    (39)  gamma_{k+1} = (1 - alpha_k) gamma_k + lam alpha_k
    (40)  eta_k = alpha_k gamma_k / (gamma_k + alpha_k lam)
    (41)  eta_k (1/alpha_{k-1} - 1) = beta_k, so that z_k = eta_k v_k + (1 - eta_k) w_k is (28)
    (48)  kappa_{k+1} (alpha_k - eta_k) = lam (1 - alpha_k)
    (50)  kappa_{k+1} alpha_k eta_k = (1 - alpha_k) alpha_{k-1}^2 (kappa_k + lam)

    Source: Pillutla et al., Claim 23 and the proof of Lemma 25.
    """
    gamma, gamma_next, eta = auxiliary(alpha, alpha_next, lam, kappa, kappa_next)
    unit = kappa_next + lam
    a = alpha_next
    return {
        "(38)": ((1 - a) * gamma - a * (unit * a - lam)) / unit,
        "(39)": (gamma_next - (1 - a) * gamma - lam * a) / unit,
        "(40)": eta - a * gamma / (gamma + a * lam),
        "(41)": eta * (1 / alpha - 1) - momentum(alpha, a, lam, kappa, kappa_next),
        "(48)": (kappa_next * (a - eta) - lam * (1 - a)) / unit,
        "(50)": (kappa_next * a * eta - (1 - a) * gamma) / unit,
    }


def constant_kappa_slacks(k: int, alpha: float, product: float) -> tuple[float, float, float, float, float]:
    """lam = 0, constant kappa, alpha_0 = (sqrt(5) - 1)/2: four slacks and the residual product - alpha_k^2.

    sqrt(2)/(k+3) <= alpha_k <= 2/(k+3)  and  2/(k+3)^2 <= A_k <= 4/(k+3)^2,
    A_k = prod_{j<=k} (1 - alpha_j) = alpha_k^2

    Parameters
    ----------
    k : int >= 0
    alpha : float
        alpha_k.
    product : float
        A_k.

    Source
    ------
    Pillutla et al., Lemma 52, (93).
    """
    s = k + 3
    return alpha - sqrt(2) / s, 2 / s - alpha, product - 2 / s**2, 4 / s**2 - product, product - alpha * alpha


def growing_kappa_slacks(k: int, alpha: float, product: float) -> tuple[float, float, float]:
    """lam = 0, kappa_k = k kappa, alpha_0 = (sqrt(5) - 1)/2: two slacks and the residual product - (k + 1) alpha_k^2.

    (1 - 1/sqrt(2))/(k+1) <= A_k <= 1/(k+2),  A_k = prod_{j<=k} (1 - alpha_j) = (k + 1) alpha_k^2

    Parameters
    ----------
    k : int >= 0
    alpha : float
        alpha_k, the root of alpha_k^2/(1 - alpha_k) = alpha_{k-1}^2 k/(k+1).
    product : float
        A_k.

    Source
    ------
    Pillutla et al., Lemma 53, *corrected*: the recursion defines alpha_k, not alpha_{k+1}; (97).
    """
    return product - (1 - 1 / sqrt(2)) / (k + 1), 1 / (k + 2) - product, product - (k + 1) * alpha * alpha


def log_rate_slack(k: float, accuracy: float) -> float:
    """accuracy - log(k)/k, which is >= 0 for every k >= ``reference.bounds.log_rate_iterations(accuracy)``.

    Parameters
    ----------
    k : float
        At least that number of iterations.
    accuracy : float > 0

    Raises
    ------
    ValueError
        k below that number.

    Source
    ------
    Pillutla et al., Lemma 54, for k >= 1.
    """
    if k < log_rate_iterations(accuracy):
        raise ValueError(f"k: expected k >= {log_rate_iterations(accuracy)} for accuracy {accuracy}, got {k}")
    return accuracy - log(k) / k


def markov_iterations(tau: float, C: float, ratio: float) -> float:
    """The largest expected number of iterations of a method with E[gap after t] <= C (1 - tau)^t gap_0.

    E[T] = sum_{t>=0} P(T > t) <= sum_{t>=0} min(1, C (1 - tau)^t ratio),  ratio = gap_0 / accuracy

    by Markov's inequality. Parameters as :func:`reference.bounds.accuracy_iterations`.

    Source: the definition (57) in Pillutla et al., summed.
    """
    if ratio <= 1:
        return 0.0
    start = max(0, ceil(log(C * ratio) / -log1p(-tau)))  # from here the terms are at most 1
    return start + C * ratio * exp(start * log1p(-tau)) / tau


def markov_slack(tau: float, C: float, ratio: float) -> float:
    """The bound on the expected iterations less 1/2, less the largest expected number: >= 0, sharper than the lemma by
    1/2.

    Source: Pillutla et al., Lemma 49.
    """
    return accuracy_iterations(tau, C, ratio) - 0.5 * (ratio > 1) - markov_iterations(tau, C, ratio)
