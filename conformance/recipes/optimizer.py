"""Recipe: add an optimiser. Here: gradient steps with momentum (Polyak's heavy ball)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, Unpack

import numpy as np

from reference.arrays import Array, squared_norm
from reference.declared import Ge, Gt, Lam
from reference.optimizers.base import Algorithm, Objective
from reference.training.public import RunOptions, runs
from reference.training.result import Report, Result
from reference.training.run import Ending, Run
from reference.training.solver import Solver, minimize


class MomentumState(NamedTuple):
    """w (d,) and its last move v (d,); t: steps done."""

    w: Array
    v: Array
    t: int


@dataclass(frozen=True)
class Momentum(Algorithm):
    """The algorithm, as a paper would print it. In the package: ``reference/optimizers/momentum.py``."""

    lam: float
    step_size: float
    beta: float = 0.9

    def init(self, objective: Objective, w0: Array) -> MomentumState:
        return MomentumState(w0, 0.0 * w0, 0)

    def epoch(self, objective: Objective, state: MomentumState, rng: np.random.Generator) -> MomentumState:
        return self.sweep(objective, state, rng.permutation(objective.n))

    def sweep(self, objective: Objective, state: MomentumState, order: np.ndarray) -> MomentumState:
        """A step for each example in ``order``: v <- beta v - gamma (g + lam w), w <- w + v."""
        w, v, t = state
        for i in range(len(order)):
            _, g = objective.value_and_gradient(w, order[i : i + 1], None)
            v = self.beta * v - self.step_size * (g + self.lam * w)
            w = w + v
        return MomentumState(w, v, t + len(order))


@dataclass(frozen=True)
class Trained(Solver):
    """How a run uses the algorithm. In the package: ``reference/training/momentum.py``, with the function below."""

    box: Momentum

    name: ClassVar[str] = "momentum"

    def evaluate(self, objective: Objective, state: MomentumState) -> Report:
        value, _ = objective.value_and_gradient(state.w, None, None)
        return Report(state.w, value + 0.5 * self.box.lam * squared_norm(state.w), calls=state.t)

    def ending(self, run: Run, state: Any) -> Ending:
        better = bool(run.fun <= run.first)
        return Ending(
            run.ending or (better, f"{run.done} epochs done"), certificate="none: steps of one size prove nothing"
        )


@runs(epochs=10, rng=None)
def momentum(
    objective: Objective,
    w0: Array | None = None,
    *,
    lam: Lam,
    step_size: Annotated[float, Gt(0)],
    beta: Annotated[float, Ge(0)] = 0.9,
    **run: Unpack[RunOptions],
) -> Result:
    """Minimise F(w) + lam/2 ||w||^2 by v <- beta v - gamma (g + lam w), w <- w + v, one example at a time.

    Parameters
    ----------
    objective : object with ``n`` and ``value_and_gradient(w, batch, mu)``
    w0 : array (d,), optional
    lam : float >= 0
    step_size : float > 0
    beta : float in [0, 1)

    Returns
    -------
    Result
    """
    return minimize(objective, Trained(Momentum(lam, step_size, beta)), w0, **run).result


__all__ = ["Momentum", "MomentumState", "momentum"]
