"""Online multiple kernel learning with a compiled epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import accelerated.arrays
import reference.online_mkl as reference
from accelerated.arrays import like, view
from accelerated.compiled.kernel_rounds import Grams, Learned, Positions, mkl_rounds
from accelerated.gram import Gram, entries
from accelerated.structures.chain import Chain
from reference.arrays import Rows
from reference.online_mkl import Explicit, KernelData, KernelWeights, MKLResult, MKLState, Rules, mkl
from reference.prox import L1, HalfSquaredL2, SquaredL1

__all__ = ["Explicit", "KernelData", "KernelSequenceModel", "KernelWeights", "MKLResult", "mkl"]

PENALTIES = {SquaredL1: (0, "lam"), HalfSquaredL2: (1, "lam"), L1: (2, "tau")}


class Packed(NamedTuple):
    """What a compiled run holds between epochs."""

    positions: Positions
    grams: Grams
    group: np.ndarray
    learned: Learned


class KernelSequenceModel(reference.KernelSequenceModel):
    __doc__ = reference.KernelSequenceModel.__doc__
    structure_type = Chain
    gram_type = Gram
    arrays = accelerated.arrays

    def fused_epoch(self, data: KernelData, rules: Rules) -> Callable[..., MKLState] | None:
        """Rounds by a kernel, where the Gram matrices are held and the penalty is one that it knows."""
        known = any(isinstance(rules.penalty, kind) for kind in PENALTIES)
        held = all(gram is None or gram.storage != "blocks" for gram in data.grams)
        return run if known and held and type(self) is KernelSequenceModel else None


def run(state: MKLState, model: Any, data: KernelData, order: np.ndarray, steps: np.ndarray, rules: Rules) -> MKLState:
    """As the reference's epoch; what the state keeps is packed and changes in place."""
    averaging = rules.average != "last"
    packed = state.kept or pack(state, model, data, averaging)
    learned, own = packed.learned, model.transitions == "own"
    kind, name = next(value for key, value in PENALTIES.items() if isinstance(rules.penalty, key))
    options = (rules.loss == "crf", kind, getattr(rules.penalty, name), rules.sigma, rules.radius or np.inf)
    flags = (own, model.transitions == "each", packed.group, averaging)
    mkl_rounds(packed.positions, packed.grams, order, steps, *options, *flags, learned)
    t = state.t + len(order)
    weights = _weights(model, data, learned, [s * A.T for s, A in zip(learned.scale, learned.A, strict=True)],
                       [s * W for s, W in zip(learned.w_scale, learned.W, strict=True)], learned.tables)  # fmt: skip
    if not averaging:
        return MKLState(weights, weights, t, packed)
    K = len(learned.scale)
    sums = [(b + s * A - u).T / t for b, s, A, u in zip(learned.before, learned.S, learned.A, learned.U, strict=False)]
    sums_W = [
        (b + s * W - u) / t for b, s, W, u in zip(learned.before_W, learned.S[K:], learned.W, learned.U_W, strict=True)
    ]
    return MKLState(weights, _weights(model, data, learned, sums, sums_W, learned.sum_T / t), t, packed)


def pack(state: MKLState, model: Any, data: KernelData, averaging: bool) -> Packed:
    """Weights of zero, and the data, as the kernel takes them."""
    (N, d), L, q = data.X.shape, model.n_labels, state.weights.transitions.shape[0]
    implicit = [gram for gram in data.grams if gram is not None]
    K, E = len(implicit), len(data.grams) - len(implicit)
    numbers = iter(range(K)), iter(range(E))
    group = [next(numbers[0]) if gram is not None else -1 - next(numbers[1]) for gram in data.grams]
    group += [K + E] if model.transitions == "own" else []
    rows = data.rows or Rows.of(np.zeros((N, 0)))
    positions = Positions(
        data.offsets,
        view("labels", data.labels, np.int64),
        np.asarray(model.cost, np.float64),
        rows.indptr,
        view("rows", rows.indices, np.int64),
        view("rows", rows.data),
    )
    some = [averaging * size for size in (K, E, q)]
    learned = Learned(
        A=np.zeros((K, L, N)),
        F=np.zeros((K, L, N)),
        scale=np.ones(K),
        W=np.zeros((E, d, L)),
        w_scale=np.ones(E),
        tables=np.zeros((q, L, L)),
        squared=np.zeros(model.n_groups),
        S=np.zeros(K + E),
        U=np.zeros((some[0], L, N)),
        U_W=np.zeros((some[1], d, L)),
        before=np.zeros((some[0], L, N)),
        before_W=np.zeros((some[1], d, L)),
        sum_T=np.zeros((some[2], L, L)),
    )
    return Packed(positions, _grams(implicit), np.array(group, np.int64), learned)


def _grams(implicit: list[Any]) -> Grams:
    """Dense matrices one upon the other (a single one is not copied), sparse ones one after another."""
    held = [entries(gram) for gram in implicit]
    dense = [whole for whole, *_ in held if whole.size]
    sparse = [(starts, columns, values) for whole, starts, columns, values in held if not whole.size]
    numbers = iter(range(len(dense))), iter(range(len(sparse)))
    place = [next(numbers[0]) if whole.size else -1 - next(numbers[1]) for whole, *_ in held]
    shift = np.cumsum([0, *(len(values) for _, _, values in sparse)])
    N = implicit[0].n if implicit else 0
    return Grams(
        np.array(place, np.int64).reshape(-1),
        dense[0][None] if len(dense) == 1 else np.stack(dense) if dense else np.zeros((0, N, N)),
        np.array([starts + shift[s] for s, (starts, _, _) in enumerate(sparse)], np.int64).reshape(len(sparse), N + 1),
        np.concatenate([np.zeros(0, np.int64), *(columns for _, columns, _ in sparse)]),
        np.concatenate([np.zeros(0), *(values for _, _, values in sparse)]),
    )


def _weights(
    model: Any,
    data: KernelData,
    learned: Learned,
    implicit: list[np.ndarray],
    explicit: list[np.ndarray],
    tables: np.ndarray,
) -> KernelWeights:
    """Copies, in the order of the groups and the data's dtype."""
    each = iter(implicit), iter(explicit)
    coefficients = tuple(like(np.ascontiguousarray(next(each[gram is None])), data.X) for gram in data.grams)
    return KernelWeights(coefficients, like(tables.copy(), data.X), learned.squared.copy())
