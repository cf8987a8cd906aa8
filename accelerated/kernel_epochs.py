"""Epochs of online multiple kernel learning by a kernel, over data that is laid out for it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import reference.prox
from accelerated.arrays import entries, like, numbers, view
from accelerated.compiled.kernel_rounds import Grams, Learned, Positions, mkl_rounds
from accelerated.gram import stacked
from accelerated.prox import L1, HalfSquaredL2, SquaredL1
from reference.arrays import Array, Rows
from reference.models.kernel_sequence import KernelData, KernelWeights
from reference.online_mkl import MKLState, Rules

__all__ = ["fused"]

PENALTIES: dict[type, tuple[int, str]] = {
    SquaredL1: (0, "lam"),
    reference.prox.SquaredL1: (0, "lam"),
    HalfSquaredL2: (1, "lam"),
    L1: (2, "tau"),
    reference.prox.L1: (2, "tau"),
}


def fused(model: Any, data: KernelData, rules: Rules) -> Callable[..., MKLState] | None:
    """An epoch with the signature of ``reference.online_mkl.epoch``, where the Gram matrices are held and the penalty is a known one; else None.

    What its state keeps changes in place.
    """
    kind = PENALTIES.get(type(rules.penalty))
    if kind is None or any(gram is not None and gram.storage == "blocks" for gram in data.grams):
        return None
    implicit = [gram for gram in data.grams if gram is not None]
    positions, grams, group = _positions(model, data), Grams(*stacked(implicit)), _groups(model, data)
    options = (rules.loss == "crf", kind[0], getattr(rules.penalty, kind[1]), rules.sigma, rules.radius or np.inf)
    averaging = rules.average != "last"
    flags = (model.transitions == "own", model.transitions == "each", group, averaging)

    def run(state: MKLState, _: Any, __: Any, order: np.ndarray, steps: np.ndarray, ___: Any) -> MKLState:
        learned = state.kept or _zeros(state.weights, data, averaging)
        mkl_rounds(positions, grams, order, steps, *options, *flags, learned)
        t = state.t + len(order)
        weights = _last(learned, data)
        return MKLState(weights, _mean(learned, data, t) if averaging else weights, t, state.norms, learned)

    return run


def _positions(model: Any, data: KernelData) -> Positions:
    return Positions(
        view("offsets", data.offsets, np.int64),
        numbers("labels", data.labels, model.n_labels),
        np.asarray(model.cost, np.float64),
        *entries(data.rows or Rows.of(np.zeros((data.X.shape[0], 0)))),
    )


def _groups(model: Any, data: KernelData) -> np.ndarray:
    """The groups' numbers as the kernel has them: implicit ones from 0 up, explicit ones from -1 down, transitions after all."""
    numbers = iter(range(len(data.grams))), iter(range(len(data.grams)))
    group = [next(numbers[0]) if gram is not None else -1 - next(numbers[1]) for gram in data.grams]
    return np.array([*group, len(group)] if model.transitions == "own" else group, np.int64)


def _zeros(weights: KernelWeights, data: KernelData, averaging: bool) -> Learned:
    """Weights of zero as the kernel takes them."""
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
    """The model that the rounds came to."""
    implicit = [s * A.T for s, A in zip(learned.scale, learned.A, strict=True)]
    explicit = [s * W for s, W in zip(learned.w_scale, learned.W, strict=True)]
    return _weights(data, learned, implicit, explicit, learned.tables)


def _mean(learned: Learned, data: KernelData, t: int) -> KernelWeights:
    """The average of the models that the t rounds began with."""
    K = len(learned.scale)
    of_A = zip(learned.before, learned.S[:K], learned.A, learned.U, strict=True)
    of_W = zip(learned.before_W, learned.S[K:], learned.W, learned.U_W, strict=True)
    implicit = [(before + s * A - U).T / t for before, s, A, U in of_A]
    explicit = [(before + s * W - U) / t for before, s, W, U in of_W]
    return _weights(data, learned, implicit, explicit, learned.sum_T / t)


def _weights(
    data: KernelData, learned: Learned, implicit: list[np.ndarray], explicit: list[np.ndarray], tables: Array
) -> KernelWeights:
    """Copies, in the order of the groups and the data's dtype."""
    each = iter(implicit), iter(explicit)
    coefficients = tuple(like(np.ascontiguousarray(next(each[gram is None])), data.X) for gram in data.grams)
    return KernelWeights(coefficients, like(tables.copy(), data.X), learned.squared.copy(), data.X)
