"""The simplex, top-K and the oracles: Pillutla et al., sections 2.3.2 and 3.2. z are m scores, z_(1) >= ... >= z_(m)
in order.
"""

from __future__ import annotations

from array_api_compat import array_namespace, device

from reference.arrays import Array, floats, logsumexp, take_last
from reference.identities.pillutla.smoothing import centred_squared_l2, fenchel_young_slack

__all__ = [
    "exactness_slack",
    "exp_oracle_residuals",
    "sparse_projection",
    "sparsity",
    "sparsity_slacks",
    "subgradient_slack",
    "top_k_residuals",
]


def sparsity(z: Array, mu: float) -> Array:
    """The number k of non-zeros of the projection of z/mu onto the simplex.

    sum_{i<=k} (z_(i) - z_(k)) < mu <= sum_{i<=k} (z_(i) - z_(k+1)),  z_(m+1) = -inf

    Parameters
    ----------
    z : array (..., m)
        Scores, -inf for forbidden ones; at least one finite.
    mu : float > 0

    Returns
    -------
    array (...,) int64

    Notes
    -----
    The right bound for k equals the left bound for k + 1, and the bounds do not decrease in k, so that k is the number
    of left bounds below mu. They are summed as sum_{r<k} r (z_(r) - z_(r+1)), terms >= 0, without cancellation. Time
    O(m log m).

    Source
    ------
    Pillutla et al., Proposition 3 (8), *corrected*: z is in non-increasing order, not in "non-decreasing".
    """
    left = _thresholds(z)
    xp = array_namespace(left)
    return xp.sum(xp.astype(left < mu, xp.int64), axis=-1)


def sparsity_slacks(z: Array, mu: float, k: int) -> tuple[Array, Array]:
    """mu - sum_{i<=k} (z_(i) - z_(k)), which is > 0, and sum_{i<=k} (z_(i) - z_(k+1)) - mu, which is >= 0, for the true
    k.

    Parameters
    ----------
    z : array (..., m)
    mu : float > 0
    k : int
        Number of non-zeros of the projection of z/mu, 1..m.

    Returns
    -------
    left, right : array (...,)
        right is inf for k = m.

    Raises
    ------
    ValueError
        k outside 1..m.

    Source
    ------
    Pillutla et al., Proposition 3 (8), *corrected* as :func:`sparsity`.
    """
    left = _thresholds(z)
    m = left.shape[-1]
    if not 1 <= k <= m:
        raise ValueError(f"k: expected a number of non-zeros in 1..{m}, got {k}")
    return mu - left[..., k - 1], exactness_slack(z, mu, k)


def sparse_projection(z: Array, mu: float, k: Array) -> Array:
    """The projection of z/mu onto the simplex, given the number k of its non-zeros.

    u_i = max(0, (1/(k mu)) sum_{j<=k} (z_i - z_(j)) + 1/k)

    Parameters
    ----------
    z : array (..., m)
        Scores, -inf for forbidden ones.
    mu : float > 0
    k : array (...,) int64
        :func:`sparsity` of z.

    Returns
    -------
    array (..., m)

    Source
    ------
    Pillutla et al., Proposition 3.
    """
    (z,) = floats(z=z)
    xp = array_namespace(z)
    below = xp.max(z, axis=-1, keepdims=True) - z  # >= 0; inf for forbidden ones
    falls = xp.sort(below, axis=-1)
    falls = xp.where(falls < xp.inf, falls, xp.zeros_like(falls))
    mean = take_last(xp, xp.cumulative_sum(falls, axis=-1), k - 1) / xp.astype(k, z.dtype)
    share = mu / xp.astype(k, z.dtype)[..., None]
    inside = mean[..., None] - below > -share
    return (xp.where(inside, mean[..., None] - below, -share) + share) / mu


def exactness_slack(z: Array, mu: float, K: int) -> Array:
    """sum_{i<=K} (z_(i) - z_(K+1)) - mu: the top-K strategy is exact at z if, and only if, this is >= 0.

    Exact: value and gradient are those of the squared l2 smoothing over all m scores.

    Parameters
    ----------
    z : array (..., m)
        Scores, -inf for forbidden ones.
    mu : float > 0
    K : int >= 1

    Returns
    -------
    array (...,)
        inf if at most K scores are finite, where the strategy is always exact.

    Source
    ------
    Pillutla et al., Proposition 4 (12), stated there as sufficient; by Proposition 3 it is necessary too. The second
    part follows: mu <= z_(1) - z_(K+1) is enough.
    """
    left = _thresholds(z)
    xp = array_namespace(left)
    if K < 1:
        raise ValueError(f"K: expected an integer >= 1, got {K}")
    return left[..., K] - mu if left.shape[-1] > K else xp.full_like(left[..., 0], xp.inf)


def subgradient_slack(value: Array, v: Array, w: Array, other_value: Array, other_w: Array) -> Array:
    """f(w') - f(w) - <v, w' - w>, which is >= 0 for every w' if v is a subgradient of the convex f at w.

    Parameters
    ----------
    value, other_value : array (...,)
        f(w) and f(w').
    v : array (..., d)
        The gradient that a max, exp or exact top-K oracle returned at w.
    w, other_w : array (..., d)

    Returns
    -------
    array (...,)

    Source
    ------
    Pillutla et al., Lemma 7 (i), for scores that are affine in w.
    """
    value, v, w, other_value, other_w = floats(value=value, v=v, w=w, other_value=other_value, other_w=other_w)
    return other_value - value - array_namespace(v).sum(v * (other_w - w), axis=-1)


def exp_oracle_residuals(value: Array, v: Array, psi: Array, gradients: Array, mu: float) -> tuple[Array, Array]:
    """The result of the exp oracle less its definition over all listed outputs.

    value - mu log sum_y exp(psi(y)/mu)  and  v - sum_y P(y) grad psi(y),
    P(y) = exp(psi(y)/mu) / sum_y' exp(psi(y')/mu)

    Parameters
    ----------
    value : array ()
    v : array (d,)
    psi : array (m,)
        Scores of all outputs, -inf for forbidden ones; at least one finite.
    gradients : array (m, d)
        Gradients of the scores.
    mu : float > 0

    Returns
    -------
    array (), array (d,)

    Source
    ------
    Pillutla et al., Lemma 7 (ii) and Proposition 9: the value is mu times the log-partition function of psi/mu.
    """
    value, v, psi, gradients = floats(value=value, v=v, psi=psi, gradients=gradients)
    xp = array_namespace(psi)
    fall = (psi - xp.max(psi, axis=-1)) / mu
    log_partition = logsumexp(xp, fall, axis=-1)
    return value - xp.max(psi, axis=-1) - mu * log_partition, v - xp.exp(fall - log_partition) @ gradients


def top_k_residuals(value: Array, v: Array, psi: Array, gradients: Array, mu: float) -> tuple[Array, Array]:
    """The result of the top-K oracle less its definition over the K best outputs.

    value - (sum_k u_k psi(y_k) + (mu/2)(1 - ||u||^2))  and  v - sum_k u_k grad psi(y_k),  u = projection of psi/mu

    Parameters
    ----------
    value : array ()
    v : array (d,)
    psi : array (K',)
        Scores of the K' = min(K, number of outputs) best outputs, any order.
    gradients : array (K', d)
        Gradients of these scores.
    mu : float > 0

    Returns
    -------
    array (), array (d,)

    Source
    ------
    Pillutla et al., Lemma 7 (iii), *corrected*: the projection is that of psi/mu, not of psi; Algorithm 6, *corrected*:
    the value has the term (mu/2)(1 - ||u||^2).
    """
    value, v, psi, gradients = floats(value=value, v=v, psi=psi, gradients=gradients)
    u = sparse_projection(psi, mu, sparsity(psi, mu))
    return fenchel_young_slack(value, psi, u, mu, centred_squared_l2), v - u @ gradients


def _thresholds(z: Array) -> Array:
    """sum_{i<=k} (z_(i) - z_(k)) for k = 1..m (..., m), inf for the forbidden ones; does not decrease."""
    (z,) = floats(z=z)
    xp = array_namespace(z)
    z = xp.sort(z, axis=-1, descending=True)
    finite = z > -xp.inf
    z = xp.where(finite, z, xp.zeros_like(z))
    count = xp.arange(1, z.shape[-1], dtype=z.dtype, device=device(z))
    rises = xp.where(finite[..., 1:], count * (z[..., :-1] - z[..., 1:]), xp.inf)
    return xp.concat([xp.zeros_like(z[..., :1]), xp.cumulative_sum(rises, axis=-1)], axis=-1)
