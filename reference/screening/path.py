"""A path of elastic-net CRFs: beta decreases from beta_max, or pairs (alpha, beta) are given. Each problem starts at
the last solution.

The rule screens first at that starting point, for the whole problem (static, sequential screening). Then the solver
runs with dynamic screening. Source: Zhang and Qiu, sections 3.2 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from reference.arrays import Array, Place, host, number, read_only_copy
from reference.declared import Ge, OpenUnit, checked
from reference.objectives import LogLoss
from reference.screening.dynamic import Screening, SparseSolver
from reference.screening.problem import ElasticNetCRF, beta_max
from reference.screening.rules import L1GapRule, Rule
from reference.screening.solvers import solve_problem

__all__ = ["PathPoint", "SparsePath", "sparse_path"]


@dataclass(frozen=True)
class PathPoint:
    """The solution at one beta, and the alpha that belongs to it.

    support: numbers of the nonzero weights, int64. values: these weights, in the data's place. fun, gap: P and a bound
    on P minus its optimum. iterations, oracle_calls, work (active weights summed over iterations), solver_seconds,
    screening_seconds, screenings, success: as in :class:`SparseResult`.
    """

    beta: float
    support: np.ndarray = field(repr=False)
    values: Array = field(repr=False)
    fun: float
    gap: float
    iterations: int
    oracle_calls: int
    work: int
    solver_seconds: float
    screening_seconds: float
    screenings: tuple[Screening, ...] = field(repr=False)
    success: bool
    alpha: float = np.nan

    @property
    def nonzeros(self) -> int:
        """Number of nonzero weights."""
        return len(self.support)

    @property
    def rejection(self) -> tuple[float, ...]:
        """For each screening, the share of the solution's zeros that were screened by then."""
        return tuple(s.rejection(s.size - len(self.support)) for s in self.screenings)

    @property
    def reservation(self) -> tuple[float, ...]:
        """For each screening, the share of weights that are left after it."""
        return tuple(s.reservation for s in self.screenings)


@dataclass(frozen=True)
class SparsePath:
    """The solutions along a path: ``points`` has one :class:`PathPoint` for each beta.

    alpha: nan if the points have several. size: number of weights d. interrupted: whether Ctrl-C ended the path, at the
    last point.
    """

    alpha: float
    beta_max: float
    size: int
    points: tuple[PathPoint, ...] = field(repr=False)
    interrupted: bool = False

    @property
    def betas(self) -> np.ndarray:
        """The beta of each point (k,), float64."""
        return np.array([point.beta for point in self.points])

    @property
    def seconds(self) -> float:
        """Seconds of solver and screening together."""
        return sum(point.solver_seconds + point.screening_seconds for point in self.points)

    def weights(self, k: int) -> Array:
        """The weights (d,) of point k; IndexError if there is no such point."""
        if not -len(self.points) <= k < len(self.points):
            raise IndexError(f"k: expected a point in 0..{len(self.points) - 1}, got {k}")
        point = self.points[k]
        w = np.zeros(self.size)
        w[point.support] = host(point.values)
        return Place.of(point.values).floats(w)


@checked
def sparse_path(
    objective: LogLoss,
    betas: Sequence[float] | np.ndarray | None = None,
    *,
    alpha: float | Sequence[float] | np.ndarray = 1.0,
    count: Annotated[int, Ge(1)] | None = None,
    ratio: Annotated[float, OpenUnit()] | None = None,
    tol: Annotated[float, Ge(0)] = 1e-6,
    rule: Rule | None = L1GapRule(),  # noqa: B008, frozen
    gamma: Annotated[float, OpenUnit()] = 0.5,
    solver: SparseSolver | None = None,
    iterations: Annotated[int, Ge(0)] = 10000,
    callback: Callable[[PathPoint], Any] | None = None,
) -> SparsePath:
    """Solve for a sequence of beta, or of pairs; each problem starts at the last solution and screens there first.

    Parameters
    ----------
    objective : LogLoss
        Over any model whose scores are linear in the weights.
    betas : sequence (k,) of floats > 0, optional
        Preferably in decreasing order; default: ``count`` values from :func:`beta_max` to ``ratio`` times that, equally
        spaced on the logarithmic scale.
    alpha : float >= 0, or sequence (k,) of these
        A sequence has an alpha for each of ``betas``: the problems are those of the pairs (alpha_i, beta_i).
    count : int >= 1, optional
        Default 100.
    ratio : float in (0, 1), optional
        Default 0.1.
    tol, rule, gamma, solver, iterations
        As in :func:`solve_sparse`, for each beta.
    callback : callable, optional
        Called as ``callback(point)`` after each beta, with copies of the arrays. The path ends if it returns True.

    Returns
    -------
    SparsePath

    Raises
    ------
    ValueError, TypeError
        Options out of range; a sequence ``alpha`` without ``betas``, or of another length than theirs; without
        ``betas``, data with beta_max = 0: no feature separates the true outputs from others.
    UnsupportedError
        A rule that needs bounds which the model does not have.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, sparse_path
    >>> model = MulticlassModel(n_features=3, labels=["a", "b"])
    >>> data = model.pack([[0, 2], [0, 1, 2], [1, 2]], ["a", "b", "b"])
    >>> path = sparse_path(LogLoss(model, data), count=4)
    >>> [point.nonzeros for point in path.points]
    [0, 2, 4, 4]

    Source
    ------
    Zhang and Qiu, Algorithm 1 and section 4; the pairs (alpha_i, beta_i) are those of section 3.2.
    """
    if np.ndim(alpha) == 0:
        number("alpha", alpha)
    largest = beta_max(objective)
    values = _betas(betas, largest, count, ratio)
    alphas = _alphas(alpha, len(values), betas is not None)
    place = Place.of(objective.zeros())
    problem = ElasticNetCRF(objective, alpha=alphas[0], beta=values[0])
    memory: Any = None
    points: list[PathPoint] = []
    for beta, own in zip(values, alphas, strict=True):
        problem = problem.with_beta(beta, own)
        result, memory = solve_problem(problem, None, tol, rule, gamma, solver, iterations, before=memory)
        w = host(result.x).astype(np.float64)
        points.append(
            PathPoint(
                beta=beta,
                support=result.support,
                values=place.floats(w[result.support]),
                fun=result.fun,
                gap=float(result.certificate),
                iterations=result.nit,
                oracle_calls=result.oracle_calls,
                work=result.work,
                solver_seconds=result.solver_seconds,
                screening_seconds=result.screening_seconds,
                screenings=result.screenings,
                success=result.success,
                alpha=own,
            )
        )
        if result.interrupted or (callback is not None and callback(_copied(points[-1])) is True):
            break
    common = alphas[0] if len(set(alphas)) == 1 else np.nan
    return SparsePath(common, largest, problem.size, tuple(points), result.interrupted)


def _copied(point: PathPoint) -> PathPoint:
    """The point with copies of its arrays, for a callback."""
    return replace(point, support=read_only_copy(point.support), values=read_only_copy(point.values))


def _alphas(alpha: Any, count: int, given: bool) -> list[float]:
    """The alpha of each of ``count`` betas, which may be ``given``."""
    if np.ndim(alpha) == 0:
        return [number("alpha", alpha)] * count
    if not given:
        raise ValueError(f"alpha: expected a number without betas, got a sequence of {len(alpha)}")
    if len(alpha) != count:
        raise ValueError(f"alpha: expected as many numbers as betas has, {count}, got {len(alpha)}")
    return [number(f"alpha[{i}]", each) for i, each in enumerate(alpha)]


def _betas(betas: Any, largest: float, count: int | None, ratio: float | None) -> list[float]:
    if betas is not None:
        for name, value in (("count", count), ("ratio", ratio)):
            if value is not None:
                raise ValueError(f"{name}: expected nothing, betas says which, got {value!r}")
        if not hasattr(betas, "__iter__"):
            raise TypeError(f"betas: expected a sequence of numbers > 0, got {type(betas).__name__}")
        values = [number(f"betas[{i}]", beta, positive=True) for i, beta in enumerate(betas)]
        if not values:
            raise ValueError("betas: expected at least one")
        return values
    count, ratio = 100 if count is None else count, 0.1 if ratio is None else ratio
    if largest == 0:
        raise ValueError(
            "betas: beta_max is 0: no feature tells the true outputs from others, all weights are 0; give betas"
        )
    return [largest * ratio ** (k / max(count - 1, 1)) for k in range(count)]
