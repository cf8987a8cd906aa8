"""Online multiple kernel learning for sequences: the kernels' weights and a predictor for each kernel are learned
together.

Over the groups of weights theta_k of a :class:`KernelSequenceModel`, the problem is

    min  (1/n) sum_i loss_i(f) + (lam/2) (sum_k ||theta_k||)^2 + (sigma/2) sum_k ||theta_k||^2

and a round, with D the difference of the parts of the (expected) output and of the true one, takes a gradient step in
every group, shrinks the groups' norms by the prox of the penalty, and scales the groups to their new norms. If a radius
is given, it then projects onto the ball of that radius. Source: Martins et al. 2010, Algorithm 3, *corrected*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host
from reference.gram import Gram
from reference.models.kernel_sequence import KernelData, KernelSequenceModel, KernelWeights
from reference.optimizers.base import Algorithm
from reference.prox.base import Regularizer
from reference.steps import Schedule

__all__ = ["MKL", "KernelProblem", "MKLState"]


@dataclass(frozen=True)
class KernelProblem:
    """A model and its packed data, with labels."""

    model: KernelSequenceModel
    data: KernelData

    @property
    def n(self) -> int:
        """Number of sequences."""
        return self.data.n


class MKLState(NamedTuple):
    """weights; mean: the average of w_1, ..., w_t for average="uniform", else the weights; t: number of rounds done;
    norms: those of the groups after each epoch.
    """

    weights: KernelWeights
    mean: KernelWeights
    t: int
    norms: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True)
class MKL(Algorithm):
    """Algorithm 3, *corrected*, on a :class:`KernelProblem` from ``model.zeros(data)``; :func:`reference.mkl` returns
    the state's ``weights``.

    penalty: of the groups' norms, such as ``SquaredL1(lam)``; step_size: a schedule. That function describes the other
    options.
    """

    penalty: Regularizer
    step_size: Schedule
    loss: str = "hinge"
    sigma: float = 0.0
    radius: float | None = None
    average: str = "last"

    def init(self, problem: KernelProblem, w0: KernelWeights) -> MKLState:
        return MKLState(w0, w0, 0)

    def epoch(self, problem: KernelProblem, state: MKLState, rng: np.random.Generator) -> MKLState:
        """A round for each sequence, in a new random order."""
        after = self.sweep(problem, state, rng.permutation(problem.n))
        return after._replace(norms=(*after.norms, np.sqrt(after.weights.squared_norms)))

    def sweep(self, problem: KernelProblem, state: MKLState, order: np.ndarray) -> MKLState:
        """A round for each sequence in ``order``."""
        for i, eta in zip(order.tolist(), self.steps(state, len(order)).tolist(), strict=True):
            state = self.round(problem, state, i, eta)
        return state

    def steps(self, state: MKLState, rounds: int) -> np.ndarray:
        """The step sizes of the next rounds."""
        return np.asarray(self.step_size(np.arange(state.t + 1, state.t + rounds + 1), self.sigma), dtype=np.float64)

    def round(self, problem: KernelProblem, state: MKLState, i: int, eta: float) -> MKLState:
        """Lines 4 to 9, on sequence i."""
        model, data, weights, t = problem.model, problem.data, state.weights, state.t + 1
        each = model.group_scores(data, i, weights)  # line 4
        D, _ = model.difference(data, i, each, weights, self.loss)  # line 5: parts decoded, less the true ones
        keep, xp = 1.0 - eta * self.sigma, array_namespace(D.unary)

        inner = np.array([float(xp.sum(f * D.unary)) for f in each])
        tables = host(xp.sum(weights.transitions * D.pairwise, axis=(1, 2))).astype(np.float64)
        before, length = weights.squared_norms, model.squared_lengths(data, i, D)
        linear = model.with_tables(inner, tables)
        squared = keep * keep * before - 2 * eta * keep * linear + eta * eta * length  # (17)
        moved = np.sqrt(np.maximum(squared, 0.0))  # line 7: the groups' norms after the gradient step
        b = np.asarray(self.penalty.prox(moved, eta))  # line 8, and line 9:
        if self.radius is not None and (norm := np.sqrt(np.sum(b**2))) > self.radius:
            b = b * (self.radius / norm)
        factors = np.where(moved > 0, b / np.where(moved > 0, moved, 1.0), 0.0)

        coefficients = tuple(
            float(factor) * plus(keep * A, -eta, data, gram, i, D.unary, model)  # line 6, scaled as lines 8 and 9 say
            for factor, A, gram in zip(factors, weights.coefficients, data.grams, strict=False)
        )
        of_tables = {"own": factors[-1:], "each": factors, "free": np.ones(1)}[model.transitions]
        kept = keep if model.transitions != "free" else 1.0
        transitions = Place.of(D.unary).floats(of_tables)[:, None, None] * (
            kept * weights.transitions - eta * D.pairwise
        )
        after = KernelWeights(coefficients, transitions, b**2, weights.rows)
        mean = after if self.average == "last" else towards(state.mean, weights, 1.0 / t)
        return MKLState(after, mean, t, state.norms)


def plus(
    A: Array, factor: float, data: KernelData, gram: Gram | None, i: int, D: Array, model: KernelSequenceModel
) -> Array:
    """A plus factor times the parts D of sequence i, as coefficients or as a sum of explicit features."""
    xp, first, last = array_namespace(A), int(data.offsets[i]), int(data.offsets[i + 1])
    if gram is None:
        rows = data.rows.take(np.arange(first, last))  # type: ignore[union-attr]
        return A + factor * model.arrays.scatter_sum(rows, D)
    return xp.concat([A[:first, :], A[first:last, :] + factor * D, A[last:, :]])


def towards(mean: KernelWeights, weights: KernelWeights, share: float) -> KernelWeights:
    """mean + share (weights - mean), without norms."""
    coefficients = tuple(m + share * (A - m) for m, A in zip(mean.coefficients, weights.coefficients, strict=True))
    transitions = mean.transitions + share * (weights.transitions - mean.transitions)
    return mean._replace(
        coefficients=coefficients, transitions=transitions, squared_norms=np.full_like(mean.squared_norms, np.nan)
    )
