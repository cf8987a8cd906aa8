"""The distance of a smoothed max from the max, and its smoothness. Source: Pillutla et al., sections 2.2, 2.3.1 and
5.3.
"""

from __future__ import annotations

from math import log

from reference.bounds.arguments import of_floats

__all__ = ["entropy_smoothness", "entropy_width", "smoothness", "squared_l2_width"]


def entropy_width(m: int) -> float:
    """D of the entropy smoothing over m outputs: 0 <= h_mu - max <= mu D.

    D = max_u H(u) = log m

    Parameters
    ----------
    m : int >= 1
        Number of outputs, of any size.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        m < 1.

    Source
    ------
    Pillutla et al., section 2.3.1 and Theorem 16.
    """
    return log(_outputs(m))


def squared_l2_width(m: int) -> float:
    """D of the squared l2 smoothing over m outputs: 0 <= h_mu - max <= mu D.

    D = max_u (1 - ||u||^2)/2 = (1 - 1/m)/2

    Parameters
    ----------
    m : int >= 1
        Number of outputs, of any size.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        m < 1.

    Source
    ------
    Pillutla et al., section 2.3.1, which has 1/2 in its place, and Theorem 16.
    """
    return 0.5 * (1 - 1 / _outputs(m))


@of_floats
def smoothness(norm: float, mu: float) -> float:
    """Lipschitz constant of the gradient of w -> h_mu(A w + b).

    L = ||A||_{2,alpha}^2 / mu

    Parameters
    ----------
    norm : float
        For the entropy the largest row norm of A (alpha = 1), for squared l2 the spectral norm (alpha = 2); see
        ``reference.identities.pillutla.operator_norm``.
    mu : float > 0

    Returns
    -------
    float

    Raises
    ------
    ValueError
        mu <= 0 or a negative norm.

    Notes
    -----
    A vector subtracted from every row of A changes the gradient by a constant only: the norm after subtracting the
    rows' mean, or any centre, is valid too and usually smaller.

    Source
    ------
    Pillutla et al., Lemma 40, (58), Remark 28.
    """
    _positive("mu", mu)
    _not_negative("norm", norm)
    return norm * (norm / mu)


@of_floats
def entropy_smoothness(diameter: float, mu: float) -> float:
    """Lipschitz constant of the gradient of w -> mu log sum_y exp((A w + b)_y / mu) from the distances of the rows of
    A.

    L = max_{y, y'} ||a_y - a_y'||^2 / (4 mu)

    Parameters
    ----------
    diameter : float
        Largest distance of two rows of A (of two outputs' features).
    mu : float > 0

    Returns
    -------
    float

    Raises
    ------
    ValueError
        mu <= 0 or a negative diameter.

    Notes
    -----
    The second derivative along a unit vector v is Var_p <a_y, v> / mu, and a variance is at most a quarter of the
    squared range (Popoviciu). Never more than :func:`smoothness` of the largest row norm, however the rows are centred.

    Source
    ------
    Sharper than Pillutla et al., Lemma 40 with Remark 28.
    """
    _positive("mu", mu)
    _not_negative("diameter", diameter)
    return diameter / 2 * (diameter / 2 / mu)


def _outputs(m: int) -> int:
    if not m >= 1:
        raise ValueError(f"m: expected a number of outputs >= 1, got {m}")
    return m


def _positive(name: str, x: float) -> None:
    if not x > 0:
        raise ValueError(f"{name}: expected a number > 0, got {x}")


def _not_negative(name: str, x: float) -> None:
    if not x >= 0:
        raise ValueError(f"{name}: expected a number >= 0, got {x}")
