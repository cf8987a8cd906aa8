"""SparseMAP: the max smoothed by the squared norm of its parts, over any max oracle.

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

from reference.arrays import Place, host
from reference.declared import Ge, Gt, checked
from reference.smoothings import Max
from reference.structures.base import positive_mu, without_scores
from reference.structures.chain_scores import ChainScores
from reference.structures.scores import Scores, flatten, mapped, score_fields
from reference.structures.segment_scores import SegmentScores
from reference.structures.tree import TreeScores

__all__ = ["SparseMAP", "SparseMarginals", "sparsemap"]

SHARING = (ChainScores, TreeScores, SegmentScores)  # where edges may share scores
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
        One space, not a batch, with ``best``, ``parts`` and ``augment``. Each edge of a chain or tree, or boundary of
        segments, is a part of its own, also where they share scores; their marginals are summed.
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

    Returns
    -------
    SparseMarginals

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
    mu, space = positive_mu(mu), _with_own_parts(structure)
    given = _flat(space.scores)
    possible = given > -np.inf
    squared = possible if parts == "all" else possible & _of_variables(space)
    finite = np.where(possible, given, 0.0)
    nothing, s = without_scores(space), finite / mu
    hull, limit, count = _Hull(s, squared), tol * max(1.0, float(s @ s)), 0
    for y in start:
        if np.all(possible[(vertex := _flat(space.parts(y))) != 0]):
            hull.enter(y, vertex)
    if not hull.outputs:
        hull.enter(*_best(nothing, space.scores, s))
        count = 1
    while True:
        p = hull.project()
        direction = np.where(squared, s - p, s)
        y, vertex = _best(nothing, space.scores, direction)
        count += 1
        gap = max(float(direction @ (vertex - p)), 0.0)
        if gap <= limit or count >= calls or not hull.enter(y, vertex):
            break
    order = np.argsort(-hull.weights, kind="stable")
    value = mu * float(s @ p - 0.5 * np.sum(p[squared] ** 2))
    marginals = _as_given(structure, _like(space.scores, p))
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

    Examples
    --------
    >>> from reference import Matching, SparseMAP
    >>> value, marginals = Matching([[0.6, 0.0], [0.0, 0.0]]).smooth_max(SparseMAP(), 1.0)
    >>> marginals.values.round(3).tolist()
    [[0.65, 0.35], [0.35, 0.65]]
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
        space = _with_own_parts(structure.first())
        possible = _flat(space.scores) > -np.inf
        squared = possible if self.parts == "all" else possible & _of_variables(space)
        _, vertex = _best(without_scores(space), space.scores, squared.astype(np.float64))
        return float(vertex[squared] @ vertex[squared]) / 2


class _Hull:
    """Outputs with affinely independent parts, and the weights that are best over their hull."""

    def __init__(self, s: np.ndarray, squared: np.ndarray) -> None:
        self.s, self.squared = s, squared
        self.outputs: list[Any] = []
        self.vertices = np.zeros((0, len(s)))  # (k, d)
        self.inverse = np.zeros((0, 0))  # of the lower Cholesky factor of K
        self.weights = np.zeros(0)

    def enter(self, y: Any, vertex: np.ndarray) -> bool:
        """Add an output with weight 0. One that adds no dimension takes weight until another has none. False if it is
        there already.
        """
        if np.any(np.all(self.vertices == vertex, axis=1)):
            return False
        row = self.inverse @ (self.vertices[:, self.squared] @ vertex[self.squared] + 1.0)
        own = float(vertex[self.squared] @ vertex[self.squared]) + 1.0
        rest = own - float(row @ row)
        self.outputs.append(y)
        self.vertices = np.vstack([self.vertices, vertex])
        self.weights = np.append(self.weights, 0.0 if len(self.weights) else 1.0)
        if rest > DEPENDENT * own:
            self._extend(row, np.sqrt(rest))
            return True
        self._move(np.append(-(row @ self.inverse), 1.0))  # sums to 0 and changes no squared part
        return True

    def _extend(self, row: np.ndarray, diagonal: float) -> None:
        k = len(row)
        grown = np.zeros((k + 1, k + 1))
        grown[:k, :k], grown[k, :k], grown[k, k] = self.inverse, -(row @ self.inverse) / diagonal, 1.0 / diagonal
        self.inverse = grown

    def project(self) -> np.ndarray:
        """The point of the hull with the best objective; outputs of weight 0 are dropped."""
        while True:
            c, inverse = self.vertices @ self.s, self.inverse
            first, ones = (inverse @ c) @ inverse, np.sum(inverse, axis=1) @ inverse
            target = first + (1.0 - np.sum(first)) / np.sum(ones) * ones
            if np.all(target > 0.0):
                self.weights = target / np.sum(target)
                return self.weights @ self.vertices
            self._move(target - self.weights)

    def _move(self, along: np.ndarray) -> None:
        """Add as much of ``along`` to the weights as they allow, and drop the output whose weight is then 0."""
        falling = np.flatnonzero(along < 0.0)
        lengths = self.weights[falling] / -along[falling]
        j = falling[np.argmin(lengths)]
        kept = np.arange(len(along)) != j
        weights = np.maximum(self.weights + np.min(lengths) * along, 0.0)[kept]
        self.weights, self.vertices = weights / np.sum(weights), self.vertices[kept]
        self.outputs = [y for y, stays in zip(self.outputs, kept, strict=True) if stays]
        squared = self.vertices[:, self.squared]
        self.inverse = np.linalg.inv(np.linalg.cholesky(squared @ squared.T + 1.0))


def _best(nothing: Any, scores: Scores, direction: np.ndarray) -> tuple[Any, np.ndarray]:
    """A best output at scores ``direction`` (d,), and its parts (d,)."""
    value, y = nothing.augment(_like(scores, direction)).best()
    if getattr(value, "ndim", 0):
        raise ValueError(f"structure: expected one space, got a batch of shape {tuple(value.shape)}")
    return y, _flat(nothing.parts(y))


def _flat(scores: Scores) -> np.ndarray:
    """All score fields as one float64 vector on the host."""
    return host(flatten(scores)).astype(np.float64)


def _like(scores: Scores, flat: np.ndarray) -> Scores:
    """A vector (d,) on the host in the form and place of the scores."""
    fields = score_fields(scores)
    pieces = iter(np.split(flat, np.cumsum([math.prod(x.shape) for x in fields])[:-1]))
    return mapped(lambda x: Place.of(x).floats(next(pieces).reshape(tuple(x.shape))), scores)


def _of_variables(space: Any) -> np.ndarray:
    """Which of the parts (d,) are states of variables."""
    if space.variables is None:
        raise ValueError(f"parts: expected 'all', as a {type(space).__name__} has no variables, got 'variables'")
    name = space.variables if isinstance(space.scores, tuple) else None
    fields = space.scores._asdict() if name else {None: space.scores}
    layout = getattr(space.scores, "layout", ())
    return np.concatenate([np.full(math.prod(x.shape), key == name) for key, x in fields.items() if key not in layout])


def _with_own_parts(structure: Any) -> Any:
    """The same space in which each edge has a score of its own."""
    scores = structure.scores
    if isinstance(scores, SHARING) and scores.pairwise.ndim == 2:
        n = scores[0].shape[-len(structure.axes)]
        edges = n if isinstance(scores, TreeScores) else max(n - 1, 0)
        each = array_namespace(scores.pairwise).broadcast_to(scores.pairwise, (edges, *scores.pairwise.shape))
        return type(structure).unchecked(scores._replace(pairwise=each))
    return structure


def _as_given(structure: Any, marginals: Scores) -> Scores:
    """The marginals in the form of the structure's scores: those of edges that share scores are summed."""
    if isinstance(marginals, SHARING) and structure.scores.pairwise.ndim == 2:
        together = array_namespace(marginals.pairwise).sum(marginals.pairwise, axis=0)
        return marginals._replace(pairwise=together)
    return marginals
