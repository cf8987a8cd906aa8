"""Passes over single examples that lie in partitions, SVRG and those of Casimir; the elastic-net CRF over partitions.

A pass visits the partitions one after another. A random order of all examples is drawn. Partitions are visited in the
order of their first example in it, and the examples of a partition in that same order. So the weights are sent once per
partition, and the result does not depend on the number of workers. Full gradients are computed by all workers at once.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from diptych.distributed.objective import Partitioned
from diptych.distributed.partitions import Job, objective_of
from reference.arrays import Array
from reference.objectives import LogLoss
from reference.optimizers.subproblem import Snapshot, Subproblem
from reference.optimizers.svrg import SVRG
from reference.screening.registry import ListedSpread, bound_of
from reference.screening.scored import Answer, Whole, losses, made
from reference.structures.base import UnsupportedError
from reference.training.counterparts import counterpart, register
from reference.training.smoothness import TRIED, Backtracking


def swept(job: Job, given: tuple[Any, ...], w: np.ndarray, k: int, order: np.ndarray, gamma: float) -> np.ndarray:
    """The weights (d,) after a step from w for each example in ``order`` of partition k."""
    objective = objective_of(job, k).objective
    snapshot, lam, kappa, mu, center = given
    box = counterpart(SVRG(), objective)
    after: np.ndarray = box.sweep(Subproblem(objective, lam, kappa, mu, center), snapshot, w, order, gamma)
    return after


def tried(job: Job, w: np.ndarray, k: int, method: str, *options: Any) -> tuple[float, int]:
    """A method of :class:`Backtracking` on examples of partition k."""
    objective = objective_of(job, k).objective
    answer: tuple[float, int] = getattr(counterpart(Backtracking(), objective), method)(objective, w, *options)
    return answer


class PartitionedSVRG(SVRG):
    def sweep(self, problem: Subproblem, s: Snapshot, w: Array, order: np.ndarray, gamma: float) -> Array:
        if self.average != "last":
            raise UnsupportedError(f"average: over partitions only the last iterate is known, got {self.average!r}")
        objective: Any = problem.objective
        transport, given = objective.transport, (s, problem.lam, problem.kappa, problem.mu, problem.center)
        with transport.sent(given) as sent:
            for k, examples in objective.parts(order):
                with transport.sent(w) as weights:
                    w = transport.one(swept, k, objective._job, *sent, *weights, rest=(examples, gamma))
        return w


class PartitionedBacktracking(Backtracking):
    # the same bounds, tested on examples of the first partition of the pass

    def propose(self, objective: Any, guess: Any, w: Array, order: np.ndarray, mu: Any, curvature: float) -> Any:
        if self.step_size is None:
            order = _first(objective, order)
        return super().propose(objective, guess, w, order, mu, curvature)

    def least(self, objective: Any, w: Array, mu: float | None, batch: np.ndarray) -> tuple[float, int]:
        ((k, examples),) = objective.parts(batch)
        answer: tuple[float, int] = objective.ask(tried, k, w, "least", mu, examples)
        return answer

    def find(
        self, objective: Any, w: Array, mu: float | None, batch: np.ndarray, start: float, limit: float = np.inf
    ) -> tuple[float, int]:
        ((k, examples),) = objective.parts(batch)
        answer: tuple[float, int] = objective.ask(tried, k, w, "find", mu, examples, start, limit)
        return answer


def _first(objective: Partitioned, order: np.ndarray) -> np.ndarray:
    """The first examples of a pass, at most TRIED, all of one partition."""
    k, examples = objective.parts(order)[0]
    return examples[:TRIED] + sum(size.n for size in objective.sizes[:k])


register(SVRG, Partitioned, None, PartitionedSVRG)
register(Backtracking, Partitioned, None, PartitionedBacktracking)


# the elastic-net CRF over partitions: the operations that :func:`reference.solve_sparse` needs of a log loss ---------


class PartitionedLoss(Whole):
    """The log loss as a function of the weights in ``columns`` (None: all weights). The other weights are 0."""

    def __init__(self, objective: Partitioned, columns: np.ndarray | None = None) -> None:
        super().__init__(objective)  # type: ignore[arg-type]
        self.columns = np.arange(objective.model.size) if columns is None else columns

    def loss(self, Z: Any) -> float:
        return float(self.objective.value(self.all_of(Z)))

    def loss_and_gradient(self, Z: Any, before: Any = None, c: float = 0.0) -> Answer:
        answer = super().loss_and_gradient(self.all_of(Z if before is None else Z + c * (Z - before)))
        return answer._replace(gradient=answer.gradient[self.columns])

    def losses(self, w: np.ndarray) -> np.ndarray:
        objective: Any = self.objective
        each: list[np.ndarray] = objective.ask_all(each_loss, self.all_of(w))
        return np.concatenate(each)

    def narrow(self, reduced: Any, columns: np.ndarray) -> PartitionedLoss:
        return type(self)(self.objective, self.columns[columns])  # type: ignore[arg-type]

    def all_of(self, w: np.ndarray) -> np.ndarray:
        """All weights (d,), from the weights in ``columns``."""
        longer: np.ndarray = np.zeros(self.objective.model.size)
        longer[self.columns] = w
        return longer


def each_loss(job: Job, w: np.ndarray, k: int) -> np.ndarray:
    """The loss of each example of partition k."""
    return losses(objective_of(job, k).objective, w)


def bound_in(job: Job, name: str, k: int) -> Any:
    """A bound on the features of partition k."""
    return bound_of(objective_of(job, k).objective, name)


@cast(Any, made).register(Partitioned)  # type: ignore[untyped-decorator]
def _(objective: Partitioned) -> PartitionedLoss:
    if not (isinstance(objective.kind, type) and issubclass(objective.kind, LogLoss)):
        raise TypeError(f"objective: expected partitions of LogLoss, got {objective.kind}")
    return PartitionedLoss(objective)


@bound_of.register
def _(objective: Partitioned, name: str) -> Any:
    """Root sums of squares over partitions; None for bounds of other kinds."""
    if name not in ("feature_range", "listed_spread"):
        return None
    bounds = objective.ask_all(bound_in, name)
    if any(bound is None for bound in bounds):
        return None
    if name == "feature_range":
        return np.sqrt(sum(bound**2 for bound in bounds))
    return ListedSpread(*(np.sqrt(sum(norms**2 for norms in each)) for each in zip(*bounds, strict=True)))
