"""The elastic-net CRF over partitions: the operations that :func:`reference.solve_sparse` needs of a log loss.

Accelerated proximal gradient and proximal Newton need losses and gradients. Screening by L1GapRule and L2GapRule needs
bounds on the features. These bounds come from sums of squares over examples.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from diptych.distributed.objective import Partitioned
from diptych.distributed.partitions import Job, objective_of
from reference.objectives import LogLoss
from reference.screening.registry import ListedSpread, bound_of
from reference.screening.scored import Answer, Whole, losses, made

__all__ = ["PartitionedLoss"]


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
