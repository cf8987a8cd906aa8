"""Epochs of online multiple kernel learning by a kernel. The data are laid out for it once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import reference.prox
from accelerated.arrays import entries, like, numbers, view
from accelerated.compiled.epochs.online_mkl import Grams, Learned, Loss, Positions, Tables, mkl_rounds
from accelerated.gram import stacked
from accelerated.kept import Kept
from accelerated.prox import L1, HalfSquaredL2, SquaredL1
from reference.arrays import Array, Rows
from reference.models.kernel_sequence import KernelData, KernelWeights
from reference.online_mkl import rounds
from reference.online_mkl.rounds import KernelProblem, MKLState

__all__ = ["MKL", "KernelProblem", "MKLState"]

PENALTIES: dict[type, tuple[int, str]] = {
    SquaredL1: (0, "lam"),
    reference.prox.SquaredL1: (0, "lam"),
    HalfSquaredL2: (1, "lam"),
    L1: (2, "tau"),
    reference.prox.L1: (2, "tau"),
}


class Packed(NamedTuple):
    """An :class:`MKLState` with the arrays of the rounds, ``kept``, which change in place."""

    weights: KernelWeights
    mean: KernelWeights
    t: int
    norms: tuple[np.ndarray, ...]
    kept: Learned


class LaidOut(NamedTuple):
    """The data as the kernel takes them."""

    positions: Positions
    grams: Grams
    group: np.ndarray


class MKL(rounds.MKL):
    @classmethod
    def fits(cls, box: rounds.MKL, problem: Any) -> bool:
        """A penalty with a kernel, and Gram matrices that are stored."""
        return type(box.penalty) in PENALTIES and not any(
            gram is not None and gram.storage == "blocks" for gram in problem.data.grams
        )

    def sweep(self, problem: KernelProblem, state: MKLState, order: np.ndarray) -> MKLState:
        model, data, (kind, weight) = problem.model, problem.data, PENALTIES[type(self.penalty)]
        laid, averaging = _laid_out(problem), self.average != "last"
        learned = state.kept if isinstance(state, Packed) else _zeros(state.weights, data, averaging)
        loss = Loss(self.loss == "crf", kind, float(getattr(self.penalty, weight)), self.sigma, self.radius or np.inf)
        tables = Tables(model.transitions == "own", model.transitions == "each", laid.group)
        steps = self.steps(state, len(order))
        mkl_rounds(laid.positions, laid.grams, order, steps, loss, tables, averaging, learned)
        t, weights = state.t + len(order), _last(learned, data)
        packed: Any = Packed(weights, _mean(learned, data, t) if averaging else weights, t, state.norms, learned)
        return packed  # type: ignore[no-any-return]


_layouts: Kept[LaidOut] = Kept()  # of a problem


def _laid_out(problem: Any) -> LaidOut:
    """The data in the kernel's layout, made once for a run."""
    model, data = problem.model, problem.data

    def make() -> LaidOut:
        grams = Grams(*stacked([gram for gram in data.grams if gram is not None]))
        return LaidOut(_positions(model, data), grams, _groups(model, data))

    return _layouts.once(problem, make)


def _positions(model: Any, data: KernelData) -> Positions:
    return Positions(
        view("offsets", data.offsets, np.int64),
        numbers("labels", data.labels, model.n_labels),
        np.asarray(model.cost, np.float64),
        *entries(data.rows or Rows.of(np.zeros((data.X.shape[0], 0)))),
    )


def _groups(model: Any, data: KernelData) -> np.ndarray:
    """The groups' numbers in the kernel: implicit groups from 0 up, explicit groups from -1 down, transitions last."""
    numbers = iter(range(len(data.grams))), iter(range(len(data.grams)))
    group = [next(numbers[0]) if gram is not None else -1 - next(numbers[1]) for gram in data.grams]
    return np.array([*group, len(group)] if model.transitions == "own" else group, np.int64)


def _zeros(weights: KernelWeights, data: KernelData, averaging: bool) -> Learned:
    """Zero weights as the kernel takes them."""
    (N, d), (q, L, _) = data.X.shape, weights.transitions.shape
    K = sum(gram is not None for gram in data.grams)
    E = len(data.grams) - K
    some = [averaging * size for size in (K, E, q)]
    return Learned(
        A=np.zeros((K, L, N)),
        F=np.zeros((K, L, N)),
        scale=np.ones(K),
        W=np.zeros((E, d, L)),
        w_scale=np.ones(E),
        tables=np.zeros((q, L, L)),
        squared=np.zeros(len(weights.squared_norms)),
        S=np.zeros(K + E),
        U=np.zeros((some[0], L, N)),
        U_W=np.zeros((some[1], d, L)),
        before=np.zeros((some[0], L, N)),
        before_W=np.zeros((some[1], d, L)),
        sum_T=np.zeros((some[2], L, L)),
    )


def _last(learned: Learned, data: KernelData) -> KernelWeights:
    """The model after the last round."""
    implicit = [s * A.T for s, A in zip(learned.scale, learned.A, strict=True)]
    explicit = [s * W for s, W in zip(learned.w_scale, learned.W, strict=True)]
    return _weights(data, learned, implicit, explicit, learned.tables)


def _mean(learned: Learned, data: KernelData, t: int) -> KernelWeights:
    """The average of the t models before each round."""
    K = len(learned.scale)
    of_A = zip(learned.before, learned.S[:K], learned.A, learned.U, strict=True)
    of_W = zip(learned.before_W, learned.S[K:], learned.W, learned.U_W, strict=True)
    implicit = [(before + s * A - U).T / t for before, s, A, U in of_A]
    explicit = [(before + s * W - U) / t for before, s, W, U in of_W]
    return _weights(data, learned, implicit, explicit, learned.sum_T / t)


def _weights(
    data: KernelData, learned: Learned, implicit: list[np.ndarray], explicit: list[np.ndarray], tables: Array
) -> KernelWeights:
    """Copies of the weights, in the order of the groups and in the data's dtype."""
    each = iter(implicit), iter(explicit)
    coefficients = tuple(like(np.ascontiguousarray(next(each[gram is None])), data.X) for gram in data.grams)
    return KernelWeights(coefficients, like(tables.copy(), data.X), learned.squared.copy(), data.X)
