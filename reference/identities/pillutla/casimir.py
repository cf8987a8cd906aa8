"""One outer iteration of the Casimir algorithm: Pillutla et al., sections 5.1 and 5.2.2, appendices D.3 and D.7.

F is lam-strongly convex, F_kappa(w; z) = F(w) + (kappa/2) ||w - z||^2, and its gap at a point is its value there less
its minimum.
"""

from __future__ import annotations

from array_api_compat import array_namespace

from reference.arrays import Array, floats

__all__ = [
    "absolute_accuracy_slack",
    "approximate_prox_slack",
    "gradient_accuracy_slack",
    "one_step_slack",
    "potential",
    "prox_center_slack",
    "relative_accuracy_slack",
    "three_points_slack",
    "warm_start_slack",
]


def relative_accuracy_slack(gap: float, w: Array, z: Array, *, delta: float, kappa: float) -> Array:
    """(delta kappa/2) ||w - z||^2 - gap: the inner solver may stop at w if this is >= 0.

    Source: Pillutla et al., (26).
    """
    return delta * kappa / 2 * _square(w, z) - gap


def gradient_accuracy_slack(gradient: Array, w: Array, z: Array, *, delta: float, lam: float, kappa: float) -> Array:
    """(lam + kappa) delta kappa ||w - z||^2 - ||grad F_kappa(w; z)||^2: where this is >= 0, so is (26)'s slack.

    By strong convexity gap <= ||grad||^2/(2 (lam + kappa)), so that (26) follows without knowing the minimum.

    Source: Pillutla et al., section 5.1, stopping criterion.
    """
    return (lam + kappa) * delta * kappa * _square(w, z) - _square(gradient)


def absolute_accuracy_slack(gap: float, z: Array, minimiser: Array, *, delta: float, kappa: float) -> Array:
    """(delta kappa/8) ||z - w*||^2 - gap, w* the minimiser of F_kappa(.; z): where this is >= 0, so is (26)'s slack.

    Source: Pillutla et al., Lemma 50, second part.
    """
    return delta * kappa / 8 * _square(z, minimiser) - gap


def warm_start_slack(gap: float, z: Array, minimiser: Array, *, L: float, kappa: float) -> Array:
    """((L + kappa)/2) ||z - w*||^2 - (F_kappa(z; z) - min F_kappa), which is >= 0 for an L-smooth F.

    Source: Pillutla et al., Lemma 50, first part.
    """
    return (L + kappa) / 2 * _square(z, minimiser) - gap


def approximate_prox_slack(
    value: float,
    gap: float,
    w: Array,
    other_value: float,
    other: Array,
    z: Array,
    *,
    theta: float,
    lam: float,
    kappa: float,
) -> Array:
    """How far an approximate proximal step w improves on any other point: >= 0 for 0 < theta < 1.

    F(w') + (kappa/2) ||w' - z||^2 + gap/theta - (F(w) + (kappa/2) ||w - z||^2 + (kappa + lam)/2 (1 - theta) ||w' -
    w||^2)

    Parameters
    ----------
    value, other_value : float
        F(w) and F(w'), the regulariser's lam included, without the proximal term.
    gap : float
        F_kappa(w; z) - min F_kappa, or more.
    w, other, z : array (d,)
        w, w' and the prox center.
    theta : float in (0, 1)
    lam, kappa : float

    Returns
    -------
    array ()

    Raises
    ------
    ValueError
        theta outside (0, 1).

    Source
    ------
    Pillutla et al., Lemma 22, *corrected*: theta must be positive.
    """
    if not 0 < theta < 1:
        raise ValueError(f"theta: expected a number between 0 and 1, both excluded, got {theta}")
    right = other_value + kappa / 2 * _square(other, z) + gap / theta
    return right - (value + kappa / 2 * _square(w, z) + (kappa + lam) / 2 * (1 - theta) * _square(other, w))


def prox_center_slack(alpha: float, eta: float, optimum: Array, w: Array, v: Array) -> tuple[Array, Array]:
    """The distance of r = alpha w* + (1 - alpha) w from the prox center z = eta v + (1 - eta) w: a slack, and its
    closed form.

    alpha (alpha - eta) ||w - w*||^2 + alpha eta ||v - w*||^2 - ||r - z||^2 = eta (alpha - eta) ||w - v||^2 >= 0

    Parameters
    ----------
    alpha, eta : float
        alpha_{k-1} and eta_{k-1}, with 0 <= eta <= alpha.
    optimum, w, v : array (d,)
        w*, w_{k-1}, v_{k-1}.

    Returns
    -------
    slack, residual : array ()
        The left side, and the left side less the right.

    Source
    ------
    Pillutla et al., Claim 24, stated as an inequality.
    """
    optimum, w, v = floats(optimum=optimum, w=w, v=v)
    r, z = alpha * optimum + (1 - alpha) * w, eta * v + (1 - eta) * w
    slack = alpha * (alpha - eta) * _square(w, optimum) + alpha * eta * _square(v, optimum) - _square(r, z)
    return slack, slack - eta * (alpha - eta) * _square(w, v)


def potential(gap: float, v: Array, optimum: Array, *, alpha: float, eta: float, kappa_next: float) -> Array:
    """S_k = (1 - alpha_k) gap + (alpha_k kappa_{k+1} eta_k/2) ||v_k - w*||^2.

    gap is F_{mu_k}(w_k) - F_{mu_k}(w*) for k >= 1, and F(w_0) - F(w*) without smoothing for k = 0, where v_0 = w_0.

    Source: Pillutla et al., (44).
    """
    return (1 - alpha) * gap + alpha * kappa_next * eta / 2 * _square(v, optimum)


def one_step_slack(
    S_before: Array,
    S: Array,
    v: Array,
    optimum: Array,
    moved: Array,
    *,
    alpha: float,
    eta: float,
    kappa: float,
    kappa_next: float,
    theta: float,
    accuracy: float,
    smoothing: float,
) -> Array:
    """The bound on the potential after one outer iteration, as a slack: >= 0 for 0 < theta < 1.

    S_{k-1} + (mu_{k-1} - mu_k) D + eps_k/theta - (kappa_k/2) ||w_k - z_{k-1}||^2
        + (kappa_{k+1} eta_k alpha_k theta)/(2 (1 - alpha_k)) ||v_k - w*||^2 - S_k/(1 - alpha_k)

    Parameters
    ----------
    S_before, S : array ()
        :func:`potential` of k - 1 and of k.
    v, optimum : array (d,)
        v_k and w*.
    moved : array (d,)
        w_k - z_{k-1}.
    alpha, eta : float
        alpha_k and eta_k.
    kappa, kappa_next : float
        kappa_k and kappa_{k+1}.
    theta : float in (0, 1)
    accuracy : float
        eps_k, at least the gap of w_k in its subproblem.
    smoothing : float
        (mu_{k-1} - mu_k) D, with mu_0 = 2 mu_1.

    Returns
    -------
    array ()

    Source
    ------
    Pillutla et al., Lemma 25, (45).
    """
    pull = kappa_next * eta * alpha * theta / (2 * (1 - alpha)) * _square(v, optimum)
    return S_before + smoothing + accuracy / theta - kappa / 2 * _square(moved) + pull - S / (1 - alpha)


def three_points_slack(w: Array, z: Array, r: Array, theta: float) -> tuple[Array, Array]:
    """A relaxed triangle inequality of squared distances for theta > 0: a slack, and its closed form.

    ||w - z||^2 - (1 - theta) ||w - r||^2 - (1 - 1/theta) ||r - z||^2 = ||theta (w - r) + (r - z)||^2/theta >= 0

    Parameters
    ----------
    w, z, r : array (d,)
    theta : float > 0

    Returns
    -------
    slack, residual : array ()
        The left side, and the left side less the right.

    Source
    ------
    Pillutla et al., Lemma 51, stated as an inequality.
    """
    w, z, r = floats(w=w, z=z, r=r)
    slack = _square(w, z) - (1 - theta) * _square(w, r) - (1 - 1 / theta) * _square(r, z)
    return slack, slack - _square(theta * (w - r) + (r - z)) / theta


def _square(x: Array, y: Array | None = None) -> Array:
    """||x - y||^2, or ||x||^2."""
    x, y = floats(x=x, y=0 * x if y is None else y)
    return array_namespace(x).sum((x - y) * (x - y), axis=-1)
