"""Smoothing the max: Pillutla et al., sections 1.2, 2.2 and 2.3.1, appendix A. h_mu is the max of m scores z
smoothed by mu omega.
"""

from __future__ import annotations

from collections.abc import Callable

from array_api_compat import array_namespace

from reference.arrays import Array, floats

__all__ = [
    "centred_squared_l2",
    "composition_slack",
    "fenchel_young_slack",
    "lipschitz_slack",
    "negative_entropy",
    "operator_norm",
    "operator_norm_slack",
    "row_diameter",
    "width_slacks",
]


def operator_norm(A: Array, alpha: int) -> Array:
    """The norm ||A||_{2,alpha} of a matrix of m rows: the largest dual norm of A w for ||w||_2 = 1.

    ||A||_{2,alpha} = max {<y, A x> : ||y||_alpha <= 1, ||x||_2 <= 1} = sup ||A x||_alpha^* / ||x||_2

    Parameters
    ----------
    A : array (m, d)
    alpha : {1, 2}
        1: the largest row norm; 2: the spectral norm, never less (Remark 28).

    Returns
    -------
    array ()

    Raises
    ------
    ValueError
        alpha is neither 1 nor 2.

    Source
    ------
    Pillutla et al., (2), (65), *corrected*: the second quotient of (65) divides by ||x||, not by ||y||; Remark 28.
    """
    (A,) = floats(A=A)
    xp = array_namespace(A)
    if alpha not in (1, 2):
        raise ValueError(f"alpha: expected 1 or 2, got {alpha}")
    if alpha == 1:
        return xp.max(_norm(A))
    return xp.linalg.matrix_norm(A, ord=2)


def operator_norm_slack(A: Array, x: Array, y: Array, alpha: int) -> Array:
    """||A||_{2,alpha} ||x||_2 ||y||_alpha - <y, A x>, which is >= 0, and 0 for some x and y.

    Parameters
    ----------
    A : array (m, d)
    x : array (d,)
    y : array (m,)
    alpha : {1, 2}

    Returns
    -------
    array ()

    Source
    ------
    Pillutla et al., (2).
    """
    A, x, y = floats(A=A, x=x, y=y)
    xp = array_namespace(A)
    return operator_norm(A, alpha) * _norm(x) * _norm(y, alpha) - xp.sum(y * (A @ x))


def row_diameter(A: Array) -> Array:
    """The largest distance of two rows of A: the argument of ``reference.bounds.entropy_smoothness``.

    max_{y, y'} ||a_y - a_y'||_2

    Parameters
    ----------
    A : array (m, d)

    Returns
    -------
    array ()

    Notes
    -----
    Memory O(m^2 d).
    """
    (A,) = floats(A=A)
    return array_namespace(A).max(_norm(A[:, None, :] - A[None, :, :]))


def negative_entropy(u: Array) -> Array:
    """omega(u) = sum_i u_i log u_i with 0 log 0 = 0 (...,), for u (..., m): between -log m and 0 on the simplex.

    Source: Pillutla et al., section 2.3.1.
    """
    (u,) = floats(u=u)
    xp = array_namespace(u)
    return xp.sum(u * xp.log(xp.where(u > 0, u, xp.ones_like(u))), axis=-1)


def centred_squared_l2(u: Array) -> Array:
    """omega(u) = (||u||^2 - 1)/2 (...,), for u (..., m): between -(1 - 1/m)/2 and 0 on the simplex.

    Source: Pillutla et al., section 2.3.1. Section 7.3 has ||u||^2/2, with the same gradients; Theorem 16 requires
    omega <= 0.
    """
    (u,) = floats(u=u)
    return (array_namespace(u).sum(u * u, axis=-1) - 1) / 2


def fenchel_young_slack(value: Array, z: Array, u: Array, mu: float, omega: Callable[[Array], Array]) -> Array:
    """h_mu(z) - (<u, z> - mu omega(u)): >= 0 for every u of the simplex, and 0 at u = grad h_mu(z) alone.

    h_mu(z) = max_{u in simplex} <u, z> - mu omega(u)

    Parameters
    ----------
    value : array (...,)
        h_mu(z), as claimed.
    z : array (..., m)
        Scores; -inf only where u is 0.
    u : array (..., m)
        Points of the simplex.
    mu : float >= 0
    omega : callable
        :func:`negative_entropy` or :func:`centred_squared_l2`.

    Returns
    -------
    array (...,)

    Source
    ------
    Pillutla et al., Definition 1 (h* is 0 on the simplex) and Proposition 2.
    """
    value, z, u = floats(value=value, z=z, u=u)
    xp = array_namespace(z)
    return value - (xp.sum(u * xp.where(u > 0, z, xp.zeros_like(z)), axis=-1) - mu * omega(u))


def width_slacks(
    value_1: Array, value_2: Array, mu_1: float, mu_2: float, *, lowest: float, highest: float = 0.0
) -> tuple[Array, Array]:
    """The two slacks of (mu_1 - mu_2) inf omega <= h_{mu_2}(z) - h_{mu_1}(z) <= (mu_1 - mu_2) sup omega.

    Parameters
    ----------
    value_1, value_2 : array (...,)
        h_{mu_1}(z) and h_{mu_2}(z); at mu = 0 the max.
    mu_1, mu_2 : float
        mu_1 >= mu_2 >= 0.
    lowest, highest : float
        inf and sup of omega on the simplex: -D (``reference.bounds.entropy_width``, ``squared_l2_width``) and 0.

    Returns
    -------
    lower, upper : array (...,)

    Raises
    ------
    ValueError
        mu_1 < mu_2, or mu_2 < 0.

    Source
    ------
    Pillutla et al., Propositions 2 and 39.
    """
    if not mu_1 >= mu_2 >= 0:
        raise ValueError(f"mu_1, mu_2: expected mu_1 >= mu_2 >= 0, got {mu_1} and {mu_2}")
    value_1, value_2 = floats(value_1=value_1, value_2=value_2)
    difference = value_2 - value_1
    return difference - (mu_1 - mu_2) * lowest, (mu_1 - mu_2) * highest - difference


def lipschitz_slack(z_1: Array, z_2: Array, u_1: Array, u_2: Array, mu: float, alpha: int) -> Array:
    """||z_1 - z_2||_alpha^* - mu ||u_1 - u_2||_alpha >= 0: the gradient of h_mu is 1/mu-Lipschitz.

    Parameters
    ----------
    z_1, z_2 : array (..., m)
    u_1, u_2 : array (..., m)
        grad h_mu(z_1) and grad h_mu(z_2).
    mu : float > 0
    alpha : {1, 2}
        Norm in which omega is 1-strongly convex: 1 for the entropy (dual: the largest entry), 2 for squared l2.

    Returns
    -------
    array (...,)

    Source
    ------
    Pillutla et al., Proposition 2.
    """
    z_1, z_2, u_1, u_2 = floats(z_1=z_1, z_2=z_2, u_1=u_1, u_2=u_2)
    return _norm(z_1 - z_2, _dual(alpha)) - mu * _norm(u_1 - u_2, alpha)


def composition_slack(A: Array, w_1: Array, w_2: Array, u_1: Array, u_2: Array, mu: float, alpha: int) -> Array:
    """(||A||_{2,alpha}^2/mu) ||w_1 - w_2|| - ||A^T u_1 - A^T u_2|| >= 0: w -> h_mu(A w + b) is smooth.

    Parameters
    ----------
    A : array (m, d)
    w_1, w_2 : array (d,)
    u_1, u_2 : array (m,)
        grad h_mu at A w_1 + b and at A w_2 + b.
    mu : float > 0
    alpha : {1, 2}
        1 for the entropy, 2 for squared l2.

    Returns
    -------
    array ()

    Source
    ------
    Pillutla et al., Lemma 40 and section 2.2.
    """
    A, w_1, w_2, u_1, u_2 = floats(A=A, w_1=w_1, w_2=w_2, u_1=u_1, u_2=u_2)
    return operator_norm(A, alpha) ** 2 / mu * _norm(w_1 - w_2) - _norm((u_1 - u_2) @ A)


def _dual(alpha: int) -> float:
    if alpha not in (1, 2):
        raise ValueError(f"alpha: expected 1 or 2, got {alpha}")
    return {1: float("inf"), 2: 2}[alpha]


def _norm(x: Array, order: float = 2) -> Array:
    """The norm of order 1, 2 or inf along the last axis, without overflow."""
    xp = array_namespace(x)
    size = xp.max(xp.abs(x), axis=-1)
    if order == float("inf"):
        return size
    unit = x / xp.where(size > 0, size, xp.ones_like(size))[..., None]
    return size * (xp.sum(xp.abs(unit), axis=-1) if order == 1 else xp.sqrt(xp.sum(unit * unit, axis=-1)))
