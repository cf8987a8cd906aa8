"""Objectives whose full gradients and epochs run as kernels where the model is exactly ours.

With ``SequenceModel`` itself (not a subclass) and a smoothing that has an oracle in :mod:`accelerated.compiled.problems`,
everything below runs over the packed data in one call; otherwise the reference's loop runs over this panel's structures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import reference.objectives as reference
from accelerated.arrays import like, view
from accelerated.compiled.loops import gradient_range, sgd_epoch
from accelerated.compiled.problems import EntropyProblem, MaxProblem, TopKProblem
from accelerated.compiled.variance_reduced import svrg_epoch, try_components
from accelerated.models.sequence import SequenceModel, packed, pad, unpad
from accelerated.threads import in_parallel, ranges
from reference.arrays import Array
from reference.objectives import Corners, Linearization
from reference.optimizers import svrg
from reference.optimizers.sgd import SGDState
from reference.optimizers.sgd import epoch as reference_epoch
from reference.optimizers.smoothness import component_smoothness, rounding
from reference.optimizers.svrg import Snapshot
from reference.smoothing import Entropy, SquaredL2, TopK

__all__ = ["Corners", "Linearization", "LogLoss", "StructuralHinge"]

_LARGEST_SEARCH = 2**20  # outputs times positions, 32 bytes each: beyond, the loop, which asks for as many as it needs


class StructuralHinge(reference.StructuralHinge):
    __doc__ = reference.StructuralHinge.__doc__

    def _sum(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array]:
        if self._problem(mu) is None:
            return super()._sum(w, batch, mu)
        return self._linearized(w, batch, mu)[:2]

    def _linearized(self, w: Array, batch: np.ndarray, mu: float) -> tuple[float, Array, float, float]:
        problem = self._problem(mu)
        if problem is None:
            return super()._linearized(w, batch, mu)
        w_host = view("w", w)
        # kernels take finite weights: -inf may forbid transitions, nan and +inf make no number
        if not np.all(np.isfinite(w_host)):
            if np.all(w_host < np.inf):
                return super()._linearized(w, batch, mu)
            nan = float("nan")
            return nan, like(np.full(self.model.size, nan), w), nan, nan
        W, A = pad(*self.model.split(w_host))
        pieces = ranges(np.concatenate([[0], np.cumsum(self.data.lengths[batch])]), most=_accumulators(W))
        sums = [(np.zeros_like(W), np.zeros_like(A)) for _ in pieces]

        def run(lo: int, hi: int) -> tuple[float, float, int]:
            return gradient_range(problem, batch, lo, hi, W, A, mu, *sums[pieces.index((lo, hi))])

        value, task_loss, exact = (sum(each) for each in zip(*in_parallel(run, pieces), strict=True))
        gradient = like(unpad(*(np.sum(parts, axis=0) for parts in zip(*sums, strict=True))), w)
        return value, gradient, task_loss, float(exact)

    def fused_epoch(self, optimizer: str) -> Callable[..., Any] | None:
        """The compiled epoch of ``"sgd"`` or ``"svrg"``, or ``"component_smoothness"``, for exactly our objectives and ``SequenceModel``.

        None: the loop over ``Chain``.
        """
        exactly_ours = type(self) in (StructuralHinge, LogLoss) and type(self.model) is SequenceModel
        loops: dict[str, Callable[..., Any]] = {
            "sgd": _sgd_epoch,
            "svrg": _svrg_epoch,
            "component_smoothness": _component_smoothness,
        }
        return loops.get(optimizer) if exactly_ours else None

    def _problem(self, mu: float) -> MaxProblem | EntropyProblem | TopKProblem | None:
        """The packed arrays as the problem type that names the oracle, or None where there is no kernel."""
        if type(self.model) is not SequenceModel:
            return None
        kind, options = _oracle_of(self.smoothing, mu)
        if kind is TopKProblem:
            longest = int(self.data.lengths.max())
            options = (min(options[0], self.model.n_labels**longest),)
            if options[0] * (longest + 1) > _LARGEST_SEARCH:
                return None
        if kind is None:
            return None
        cost = self.model.cost if self.loss_augmented else np.zeros_like(self.model.cost)
        return packed(kind, self.data, self.model.true_labels(self.data), cost, *options)


def _oracle_of(smoothing: Any, mu: float) -> tuple[type | None, tuple[int, ...]]:
    """The problem type of a smoothing, None if it has none, and what it takes besides the data."""
    if mu == 0:
        return MaxProblem, ()
    if type(smoothing) is Entropy:
        return EntropyProblem, ()
    if type(smoothing) is TopK:
        return TopKProblem, (smoothing.k,)
    if type(smoothing) is SquaredL2:
        return TopKProblem, (smoothing.max_k,)
    return None, ()


class LogLoss(reference.LogLoss, StructuralHinge):
    __doc__ = reference.LogLoss.__doc__


def _sgd_epoch(
    state: SGDState,
    objective: StructuralHinge,
    order: np.ndarray,
    *,
    batch_size: int,
    steps: np.ndarray,
    lam: float,
    mu: float | None,
    average: str,
) -> SGDState:
    problem = objective._problem(objective._mu(mu))
    if problem is None or not np.all(np.isfinite(view("w0", state.x))):
        return reference_epoch(
            state, objective, order, batch_size=batch_size, steps=steps, lam=lam, mu=mu, average=average
        )
    (W, A), (mean_W, mean_A) = (pad(*objective.model.split(view("w", w))) for w in (state.x, state.mean))
    weights, weighed = _weights(average, state.t, len(order))
    sgd_epoch(problem, order, steps, weights, weighed, lam, objective._mu(mu), W, A, mean_W, mean_A)
    return SGDState(like(unpad(W, A), state.x), like(unpad(mean_W, mean_A), state.x), state.t + len(order))


def _svrg_epoch(
    start: Snapshot,
    objective: StructuralHinge,
    order: np.ndarray,
    *,
    step_size: float,
    lam: float,
    kappa: float,
    center: Array | None,
    mu: float | None,
    average: str,
) -> Array:
    problem = objective._problem(objective._mu(mu))
    x, gradient = view("w0", start.x), view("gradient", start.gradient)
    pull = -gradient if center is None else kappa * view("center", center) - gradient
    if problem is None or len(order) == 0 or not np.all(np.isfinite(x) & np.isfinite(pull)):
        return svrg.epoch(
            start,
            objective,
            order,
            step_size=step_size,
            lam=lam,
            kappa=kappa,
            center=center,
            mu=mu,
            average=average,
        )
    a = 1.0 / (1.0 + step_size * (lam + kappa))
    (X, X_A), (b, b_A), (W, A) = (pad(*objective.model.split(v)) for v in (x, a * step_size * pull, x))
    averaged = average != "last"
    sums = (np.zeros_like(W), np.zeros_like(A)) if averaged else (W[:0], A[:0])
    svrg_epoch(problem, order, step_size, a, objective._mu(mu), averaged, X, X_A, b, b_A, W, A, *sums)
    return like(unpad(*sums) / len(order) if averaged else unpad(W, A), start.x)


def _component_smoothness(
    objective: StructuralHinge, w: Array, mu: float | None, batch: np.ndarray, start: float
) -> tuple[float, int]:
    problem = objective._problem(objective._mu(mu))
    if problem is not None and np.all(np.isfinite(view("w", w))):
        W, A = pad(*objective.model.split(view("w", w)))
        L, calls = try_components(problem, batch, start, objective._mu(mu), rounding(w), W, A)
        if np.isfinite(L):
            return L, calls
    return component_smoothness(objective, w, mu, batch, start)


def _accumulators(W: np.ndarray) -> int:
    """How many gradients may be held at once: 8, or 2 where 8 would take more than 64 MiB."""
    return 8 if 8 * W.nbytes <= 2**26 else 2


def _weights(average: str, done: int, n: int) -> tuple[np.ndarray, float]:
    """The weights of the iterates after steps done+1..done+n in the average, and the sum of those before."""
    if average == "last":
        return np.eye(1, n, n - 1)[0], 0.0
    if average == "uniform":
        return np.ones(n), float(done)
    return np.arange(done + 1.0, done + n + 1.0), done * (done + 1) / 2
