"""The Jacobian of SparseMAP: a projector, found by calls of ``best``.

With x = s/mu the marginals p(x) are the point of the hull of the outputs' parts that is nearest to x. Let F be the face
of the outputs that are best at x - p, and D the span of their differences. Then

    d p / d s = (1 / mu) P,   P the orthogonal projector onto D,

if p is in the relative interior of F. Proof. p is nearest exactly if no output is better than p at x - p. Let x change
by v, and p by P v. Outputs of F stay equal at x - p + (v - P v), as v - P v is orthogonal to D; the others were worse,
and stay so while v is small; p + P v is still in F, as p is in its relative interior. So p + P v is nearest. On the
boundary of F some directions have no derivative; P is then the limit of the Jacobians where p is approached through F.

The outputs of weight may span less than D, where scores tie. For r orthogonal to the directions found so far, and
random, <r, a - p> differs from 0 for some a of F if any direction is missing, and as p is a mean of F, one of the best
outputs at x - p + eps r and x - p - eps r has a new direction; if neither has, D is complete. Source: Niculae, Martins,
Blondel and Cardie (2018), SparseMAP, section 4.3, for outputs that do not tie; the rest is ours.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from reference.declared import Gt, checked
from reference.structures.base import positive_mu
from reference.structures.scores import Scores, score_fields
from reference.structures.vectors import Vectors, flat

__all__ = ["sparsemap_product"]

TIE = 1e-6  # of max(1, ||s/mu||): outputs that are worse by less, for each unit of their distance from p, tie
NEW = 1e-5  # the least length of a new direction, where those of outputs are at least 1 or so


@checked
def sparsemap_product(structure: Any, marginals: Scores, along: Scores, mu: Annotated[float, Gt(0)] = 1.0) -> Scores:
    """The Jacobian of the marginals of :func:`sparsemap`, with the norm of all parts, times a direction.

    Parameters
    ----------
    structure : Structure
        One space, as for :func:`sparsemap`, in which each edge has scores of its own.
    marginals : scores
        Those of :func:`sparsemap` at these scores, to 1e-7 or better.
    along : scores
        A direction, or a gradient in the marginals: the Jacobian is symmetric. Forbidden parts of it are ignored.
    mu : float > 0

    Returns
    -------
    scores
        Shaped like the scores; 0 at forbidden parts.

    Raises
    ------
    ValueError, TypeError
        Options out of range; a batch; edges that share scores.

    Notes
    -----
    At most two calls of ``best`` for each dimension of the face, and two.

    Examples
    --------
    >>> from reference import Matching, sparsemap, sparsemap_product
    >>> space, along = Matching([[0.6, 0.0], [0.0, 0.0]]), Matching([[1.0, 0.0], [0.0, 0.0]]).scores
    >>> sparsemap_product(space, sparsemap(space).marginals, along).values.round(3).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    mu, space = positive_mu(mu), Vectors(structure)
    if space.space is not structure:
        raise ValueError("structure: expected scores of its own for each edge, got edges that share them")
    for name, x in (("marginals", marginals), ("along", along)):
        if (shapes := [each.shape for each in score_fields(x)]) != (
            own := [x.shape for x in score_fields(space.given)]
        ):
            raise ValueError(f"{name}: expected the shapes of the scores, {own}, got {shapes}")
    p, v = (np.where(space.possible, x, 0.0) for x in map(flat, (marginals, along)))
    tie = TIE * max(1.0, float(np.linalg.norm(space.scores)) / mu)
    basis = _directions(space, space.scores / mu - p, p, tie)
    return space.as_given(basis.T @ (basis @ v) / mu)


def _directions(space: Vectors, normal: np.ndarray, p: np.ndarray, tie: float) -> np.ndarray:
    """An orthonormal basis (r, d) of the differences of outputs that are best at ``normal``, or tie with these."""
    basis, rng = np.zeros((0, len(p))), np.random.default_rng(0)
    while True:
        r, before = _across(basis, np.where(space.possible, rng.normal(size=len(p)), 0.0)), len(basis)
        if np.linalg.norm(r) < NEW:
            return basis
        for sign in (1.0, -1.0):
            _, vertex = space.best(normal + sign * tie / np.linalg.norm(r) * r)
            direction = _across(basis, vertex - p)
            if (length := np.linalg.norm(direction)) > NEW:
                basis = np.concatenate([basis, direction[None] / length])
        if len(basis) == before:
            return basis


def _across(basis: np.ndarray, v: np.ndarray) -> np.ndarray:
    """v less its projection onto the span of an orthonormal basis, twice for the sake of rounding."""
    for _ in range(2):
        v = v - basis.T @ (basis @ v)
    return v
