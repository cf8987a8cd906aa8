"""SparseMAP: the max smoothed by the squared norm of its parts, over any max oracle; its Jacobian.

    max over p in the hull of the outputs' parts of  <s, p> - mu/2 ||p||^2

Its maximiser is the projection of s/mu onto the hull: marginals with few outputs behind them, found by an active set
from calls of ``best`` alone, so that matchings, cuts and a user's own structures have it, whose sums over outputs are
#P-complete or not there. :class:`reference.smoothings.SquaredL2` is another smoothing: it has the norm of the weights
of outputs. Niculae et al. put the quadratic on the scores of variables alone, ``parts="variables"`` here.

The active set (Wolfe's algorithm for the nearest point of a polytope). For weights u of outputs with parts a_i, Gram
matrix G and c_i = <s/mu, a_i>, the maximum of c u - u G u / 2 over sum u = 1 is found with a Cholesky factor of
K = G + 1 1^T:

    K u = c + beta 1,   beta = (1 - 1 K^-1 c) / (1 K^-1 1)

If a weight would be negative, the step ends where the first reaches 0 and its output is dropped. Otherwise ``best`` at
s/mu - p gives the output that enters; the objective is at most mu gap below its maximum, gap = <s/mu - p, a - p>. A
user's ``best`` must be exact. Sources: Niculae, Martins, Blondel and Cardie (2018), SparseMAP; Wolfe (1976).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Place
from reference.declared import Ge, Gt, checked
from reference.smoothings import Max
from reference.structures.base import positive_mu
from reference.structures.scores import Scores, mapped, score_fields
from reference.structures.vectors import Vectors, flat

__all__ = ["SparseMAP", "SparseMarginals", "sparsemap", "sparsemap_product"]

TIE = 1e-6  # of max(1, ||s/mu||): outputs that are worse by less, for each unit of their distance from p, tie
NEW = 1e-5  # the least length of a new direction, where those of outputs are at least 1 or so
DEPENDENT = 1e-10  # of its squared norm, what an output adds to the affine hull if it adds a dimension


class SparseMarginals(NamedTuple):
    """value: at most mu gap below the maximum. marginals: shaped like the scores; their squared distance from the
    maximiser is at most gap, in the parts whose norm it is. calls of ``best``. outputs: a list of those whose parts the
    marginals average; weights (k,): of these, on the host, from high to low.
    """

    value: float
    marginals: Scores
    gap: float
    calls: int
    outputs: list[Any]
    weights: np.ndarray


@checked
def sparsemap(
    structure: Any,
    mu: Annotated[float, Gt(0)] = 1.0,
    *,
    parts: Literal["all", "variables"] = "all",
    tol: Annotated[float, Ge(0)] = 1e-10,
    start: Sequence[Any] = (),
    calls: Annotated[int, Ge(1)] = 10_000,
) -> SparseMarginals:
    """The maximum over marginals p of <s, p> - mu/2 ||p||^2.

    Parameters
    ----------
    structure : Structure
        One space, not a batch, with ``best`` and ``parts``, which are called at other ``scores``. Each edge of a chain
        or tree, or boundary of segments, is a part of its own, also where scores are shared; its marginals are summed.
    mu : float > 0
        Strength of the smoothing.
    parts : {"all", "variables"}
        Which parts the norm is of: all, or those of the structure's variables. A Cut needs "variables" where its edges
        have less than mu to lose, because edges that prefer unequal labels are no cut's.
    tol : float >= 0
        Stop at a gap of tol max(1, ||s/mu||^2).
    start : sequence of outputs, optional
        Those of an earlier answer, to start from.
    calls : int >= 1
        The most calls of ``best``.

    Raises
    ------
    InfeasibleError
        Every output is forbidden.
    ValueError, TypeError
        Options out of range; a batch; a structure without variables where ``parts`` asks for them.

    Source
    ------
    Niculae et al. (2018), equation (6) with the norm of all parts; its algorithm is the active set of section 4.2.

    Examples
    --------
    >>> from reference import Matching, sparsemap
    >>> answer = sparsemap(Matching([[0.6, 0.0], [0.0, 0.0]]))
    >>> answer.marginals.values.round(3).tolist()
    [[0.65, 0.35], [0.35, 0.65]]
    """
    mu, space = positive_mu(mu), Vectors(structure)
    s, norm = space.scores / mu, space.norm(parts)
    hull, limit, count = _Hull(s, norm), tol * max(1.0, float(s @ s)), 0
    for y in start:
        if space.allows(vertex := space.parts(y)):
            hull.enter(y, vertex)
    if not hull.outputs:
        hull.enter(*space.best(s))
        count = 1
    while True:
        p = hull.project()
        direction = s - norm * p
        y, vertex = space.best(direction)
        count += 1
        gap = max(float(direction @ (vertex - p)), 0.0)
        if gap <= limit or count >= calls or not hull.enter(y, vertex):
            break
    order = np.argsort(-hull.weights, kind="stable")
    value = mu * float(s @ p - 0.5 * (p @ (norm * p)))
    marginals = space.as_given(p)
    return SparseMarginals(value, marginals, gap, count, [hull.outputs[i] for i in order], hull.weights[order])


@dataclass(frozen=True)
class SparseMAP:
    """A smoothing of :class:`StructuralHinge` over ``best`` alone: the max of <s, p> + mu/2 (c - ||p||^2).

    c is the largest squared norm of an output's parts, so that the value is between the max and the max + mu c/2. The
    weights of its outputs are a dual point, and its gradient is Lipschitz. For structures whose parts are 0 or 1.

    Parameters
    ----------
    parts, tol : as for :func:`sparsemap`.

    Source
    ------
    Niculae et al. (2018); smoothing by a strongly convex function of the parts as in Nesterov (2005).
    """

    parts: Literal["all", "variables"] = "all"
    tol: float = 1e-10
    needs = "best"
    one_by_one = True  # it takes no batches

    def __call__(self, structure: Any, mu: float = 1.0) -> tuple[Any, Scores]:
        if mu == 0:
            return Max()(structure)
        space = structure.first()
        field, own = (score_fields(each.scores)[0] for each in (structure, space))
        batch = tuple(field.shape[: field.ndim - own.ndim])
        if math.prod(batch) != 1:
            raise ValueError(f"structure: SparseMAP takes one space, got a batch of shape {batch}")
        answer = sparsemap(space, mu, parts=self.parts, tol=self.tol)
        value = Place.of(field).floats(np.full(batch, answer.value + mu * self.width_of(space)))
        in_form = mapped(lambda x, p: array_namespace(p).reshape(p, x.shape), structure.scores, answer.marginals)
        return value, in_form

    def width_of(self, structure: Any) -> float:
        """D = c/2: the smoothed max exceeds the max by at most mu D."""
        space = Vectors(structure.first())
        norm = space.norm(self.parts)
        _, vertex = space.best(norm)
        return float(vertex @ (norm * vertex)) / 2


@checked
def sparsemap_product(structure: Any, marginals: Scores, along: Scores, mu: Annotated[float, Gt(0)] = 1.0) -> Scores:
    """The Jacobian of the marginals of :func:`sparsemap`, with the norm of all parts, times a direction: a projector,
    found by calls of ``best``.

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
    With x = s/mu the marginals p(x) are the point of the hull of the outputs' parts that is nearest to x. Let F be the
    face of the outputs that are best at x - p, and D the span of their differences. Then

        d p / d s = (1 / mu) P,   P the orthogonal projector onto D,

    if p is in the relative interior of F. Proof. p is nearest exactly if no output is better than p at x - p. Let x
    change by v, and p by P v. Outputs of F stay equal at x - p + (v - P v), as v - P v is orthogonal to D; the others
    were worse, and stay so while v is small; p + P v is still in F, as p is in its relative interior. So p + P v is
    nearest. On the boundary of F some directions have no derivative; P is then the limit of the Jacobians where p is
    approached through F.

    The outputs of weight may span less than D, where scores tie. For r orthogonal to the directions found so far, and
    random, <r, a - p> differs from 0 for some a of F if any direction is missing, and as p is a mean of F, one of the
    best outputs at x - p + eps r and x - p - eps r has a new direction; if neither has, D is complete. Source: Niculae,
    Martins, Blondel and Cardie (2018), SparseMAP, section 4.3, for outputs that do not tie; the rest is ours.

    There are at most two calls of ``best`` for each dimension of the face, and two.

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
    own = [x.shape for x in score_fields(space.given)]
    for name, x in (("marginals", marginals), ("along", along)):
        if (shapes := [each.shape for each in score_fields(x)]) != own:
            raise ValueError(f"{name}: expected the shapes of the scores, {own}, got {shapes}")
    p, v = (np.where(space.possible, x, 0.0) for x in map(flat, (marginals, along)))
    tie = TIE * max(1.0, float(np.linalg.norm(space.scores)) / mu)
    basis = _directions(space, space.scores / mu - p, p, tie)
    return space.as_given(basis.T @ (basis @ v) / mu)


class _Hull:
    """Outputs with affinely independent parts, and the weights that are best over their hull."""

    def __init__(self, s: np.ndarray, norm: np.ndarray) -> None:
        self.s, self.norm = s, norm
        self.outputs: list[Any] = []
        self.vertices = np.zeros((0, len(s)))  # (k, d)
        self.K = np.zeros((0, 0))  # their Gram matrix plus 1
        self.inverse = np.zeros((0, 0))  # of the lower Cholesky factor of K
        self.weights = np.zeros(0)

    def enter(self, y: Any, vertex: np.ndarray) -> bool:
        """Add an output with weight 0. One that adds no dimension takes weight until another has none. False if it is
        there already.
        """
        column, own = self.vertices @ (self.norm * vertex) + 1.0, float(vertex @ (self.norm * vertex)) + 1.0
        row = self.inverse @ column
        rest = own - float(row @ row)
        is_new = rest > DEPENDENT * own
        if not is_new and np.any(np.all(self.vertices == vertex, axis=1)):
            return False
        self.outputs.append(y)
        self.vertices = np.concatenate([self.vertices, vertex[None]])
        self.weights = np.append(self.weights, 0.0 if len(self.weights) else 1.0)
        self.K = _bordered(self.K, column, column, own)
        along = row @ self.inverse
        if is_new:
            diagonal = math.sqrt(rest)
            self.inverse = _bordered(self.inverse, -along / diagonal, 0.0, 1.0 / diagonal)
        else:
            self._move(np.append(-along, 1.0))  # sums to 0 and changes no part of the norm
        return True

    def project(self) -> np.ndarray:
        """The point of the hull with the best objective; outputs of weight 0 are dropped."""
        while True:
            sides = np.stack([self.vertices @ self.s, np.ones(len(self.weights))], axis=1)
            first, ones = (self.inverse.T @ (self.inverse @ sides)).T
            target = first + (1.0 - np.sum(first)) / np.sum(ones) * ones
            if np.all(target > 0.0):
                self.weights = target / np.sum(target)
                return self.weights @ self.vertices
            self._move(target - self.weights)

    def _move(self, along: np.ndarray) -> None:
        """Add as much of ``along`` to the weights as they allow, and drop the output whose weight is then 0."""
        falling = np.flatnonzero(along < 0.0)
        lengths = self.weights[falling] / -along[falling]
        j = int(falling[np.argmin(lengths)])
        weights = np.delete(np.maximum(self.weights + np.min(lengths) * along, 0.0), j)
        self.weights, self.vertices = weights / np.sum(weights), np.delete(self.vertices, j, axis=0)
        self.outputs.pop(j)
        self.K = np.delete(np.delete(self.K, j, axis=0), j, axis=1)
        self.inverse = np.linalg.inv(np.linalg.cholesky(self.K))


def _bordered(A: np.ndarray, row: Any, column: Any, corner: float) -> np.ndarray:
    """A matrix with one more row and column."""
    k = len(A)
    grown = np.empty((k + 1, k + 1))
    grown[:k, :k], grown[k, :k], grown[:k, k], grown[k, k] = A, row, column, corner
    return grown


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
