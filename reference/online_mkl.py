"""Online multiple kernel learning for sequences: which kernels, and what with each, learned together.

Group k of the weights is theta_k in the space of kernel k, and a labelling y of a sequence scores

    f(y) = sum_k sum_t <theta_k, phi_k(x_t, y_t)> + sum_t T(y_{t-1}, y_t),    <theta_k, phi_k(x, l)> = sum_s A_k(s, l) K_k(x_s, x)

with coefficients A_k (N, L) over the N training positions. The problem is

    min  (1/n) sum_i loss_i(f) + (lam/2) (sum_k ||theta_k||)^2 + (sigma/2) sum_k ||theta_k||^2

and a round, with D the difference of the parts of the (expected) output and of the true one, takes a gradient step in every group, shrinks the groups' norms
by the prox of the penalty, and scales the groups to their new norms, and back into a ball where one is given. Source: Martins et al. 2010, Algorithm 3, *corrected*.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

import reference.arrays
from reference.arrays import Array, Place, Rows, floats, host, integer, number, real
from reference.gram import BUDGET, Gram
from reference.kernels import Kernel
from reference.models.base import label_cost, label_indices, label_names
from reference.optimizers.arguments import check_options, generator
from reference.optimizers.result import Callback, Result, Row, wants_to_stop
from reference.optimizers.schedules import Constant
from reference.prox import SquaredL1
from reference.prox.base import Regularizer
from reference.structures.chain import Chain, ChainScores

__all__ = ["Explicit", "KernelData", "KernelSequenceModel", "KernelWeights", "MKLResult", "mkl"]

TRANSITIONS = ("own", "each", "free")
AVERAGES = ("last", "uniform")


@dataclass(frozen=True)
class Explicit:
    """A group of explicit features: the linear kernel, its weights held as a matrix (d, L) instead of coefficients."""


class KernelData(NamedTuple):
    """Packed sequences: sequence i owns positions offsets[i]:offsets[i+1] of X (N, d); labels (N,), or None.

    grams: the Gram matrix of each kernel, None for an explicit group; rows: the sparse rows of X, where a group is explicit.
    """

    X: Array
    offsets: np.ndarray
    labels: Array | None
    grams: tuple[Gram | None, ...]
    rows: Rows | None

    @property
    def n(self) -> int:
        """Number of sequences."""
        return len(self.offsets) - 1


class KernelWeights(NamedTuple):
    """coefficients: of each group, (N, L) over the training positions, or (d, L); transitions (q, L, L); squared_norms (p,) on the host.

    q: 1 where transitions are a group of their own (then the last of p) or free, and the number of kernels where each has its own.
    """

    coefficients: tuple[Array, ...]
    transitions: Array
    squared_norms: np.ndarray

    @property
    def beta(self) -> np.ndarray:
        """The groups' share (p,) in the sum of norms; all 0 where that is 0."""
        norms = np.sqrt(self.squared_norms)
        return norms / total if (total := norms.sum()) > 0 else norms


@dataclass(frozen=True)
class MKLResult(Result):
    """A :class:`Result` whose x is a :class:`KernelWeights`; ``beta`` (p,): the kernels' weights; ``norms`` (epochs, p): the groups' norms after each."""

    beta: np.ndarray
    norms: np.ndarray


class MKLState(NamedTuple):
    """weights; mean: of w_1, ..., w_t, or the same, as asked; t: rounds done; kept: what a fused epoch holds besides."""

    weights: KernelWeights
    mean: KernelWeights
    t: int
    kept: Any = None


class Rules(NamedTuple):
    """What a round goes by: loss, penalty of the norms, sigma, radius, which average is kept."""

    loss: str
    penalty: Regularizer
    sigma: float
    radius: float | None
    average: str


class KernelSequenceModel:
    """A linear-chain labeller over kernels of the positions' features.

    Parameters
    ----------
    groups : sequence of Kernel or Explicit
        One group of weights each.
    labels : int or sequence of str
        Number of labels, or their names.
    transitions : {"own", "each", "free"}
        The scores of neighbouring labels: a group of their own, weighed as the kernels are; a part of each group (a kernel of labellings: with one
        kernel the plain structural SVM); or without penalty.
    cost : array (L, L), optional
        Task loss of predicting label j for true label i, summed over positions; default: Hamming.

    Source
    ------
    Martins et al., section 4 (handwriting): "an indicator basis function to represent the correlation between consecutive outputs"; which group it is in is not said.
    """

    structure_type = Chain
    gram_type = Gram
    arrays: ModuleType = reference.arrays

    def __init__(
        self,
        groups: Sequence[Kernel | Explicit],
        labels: int | Sequence[str],
        *,
        transitions: str = "own",
        cost: Any = None,
    ) -> None:
        self.groups = tuple(groups)
        if not self.groups or not all(isinstance(group, (Kernel, Explicit)) for group in self.groups):
            raise TypeError(f"groups: expected kernels such as Gaussian(5.0), or Explicit(), got {groups!r}")
        if transitions not in TRANSITIONS:
            raise ValueError(f"transitions: expected one of {', '.join(TRANSITIONS)}, got {transitions!r}")
        self.transitions = transitions
        self.labels = label_names(labels)
        self.n_labels = len(self.labels)
        self.cost = label_cost(cost, self.n_labels)

    @property
    def n_groups(self) -> int:
        """p: the kernels, and the transitions where they are a group of their own."""
        return len(self.groups) + (self.transitions == "own")

    def pack(
        self, X: Any, Y: Any = None, *, like: Array | None = None, storage: str = "auto", budget: int = BUDGET
    ) -> KernelData:
        """Sequences and their labels, checked and laid out flat, with their Gram matrices.

        Parameters
        ----------
        X : sequence of n arrays (n_i, d)
        Y : sequence of n label sequences, optional
            Each (n_i,) integer indices, or label names.
        like : array, optional
            Namespace, device and dtype to compute in; default NumPy float64.
        storage, budget
            As :class:`reference.gram.Gram` takes them; the budget in bytes is for all together.

        Returns
        -------
        KernelData

        Raises
        ------
        ValueError, TypeError
            Naming the sequence, for a wrong number of features or labels, unknown labels, numbers that are not finite.
        """
        place, each = Place.of(like), [np.asarray(host(x)) for x in X]
        width = next((x.shape[1] for x in each if x.ndim == 2), None)
        for i, x in enumerate(each):
            if x.ndim != 2 or x.shape[1] != width or x.dtype.kind not in "fiub" or not np.all(np.isfinite(x)):
                columns = "d" if width is None else width
                raise ValueError(
                    f"X[{i}]: expected finite numbers of shape (n, {columns}), got {x.dtype} of shape {x.shape}"
                )
        if not each:
            raise ValueError("X: expected at least one sequence, got none")
        offsets = np.concatenate([[0], np.cumsum([len(x) for x in each])]).astype(np.int64)
        flat = place.floats(np.concatenate(each).astype(np.float64))
        labels = None
        if Y is not None:
            if len(Y) != len(each):
                raise ValueError(f"Y: expected {len(each)} label sequences, one for each of X, got {len(Y)}")
            indices = [label_indices(f"Y[{i}]", y, self.labels) for i, y in enumerate(Y)]
            for i, (y, x) in enumerate(zip(indices, each, strict=True)):
                if len(y) != len(x):
                    raise ValueError(f"Y[{i}]: expected {len(x)} labels, one for each position of X[{i}], got {len(y)}")
            labels = place.integers(np.concatenate(indices))
        grams: list[Gram | None] = []
        for group in self.groups:
            held = sum(gram.nbytes for gram in grams if gram is not None)
            grams.append(
                self.gram_type(group, flat, storage, max(budget - held, 0)) if isinstance(group, Kernel) else None
            )
        rows = None if all(isinstance(group, Kernel) for group in self.groups) else Rows.of(flat, like=flat)
        return KernelData(flat, offsets, labels, tuple(grams), rows)

    def zeros(self, data: KernelData) -> KernelWeights:
        """Weights of zero in the data's place."""
        here, (N, d), L = Place.of(data.X), data.X.shape, self.n_labels
        coefficients = tuple(here.zeros((N if isinstance(group, Kernel) else d, L)) for group in self.groups)
        tables = len(self.groups) if self.transitions == "each" else 1
        return KernelWeights(coefficients, here.zeros((tables, L, L)), np.zeros(self.n_groups))

    def group_scores(self, data: KernelData, i: int, weights: KernelWeights) -> list[Array]:
        """<theta_k, phi_k(x_t, l)> (n, L) of sequence i, for each kernel and explicit group."""
        first, last = int(data.offsets[i]), int(data.offsets[i + 1])
        return [
            self.arrays.gather_sum(data.rows.take(np.arange(first, last)), A)
            if gram is None
            else gram.times(first, last, A)
            for gram, A in zip(data.grams, weights.coefficients, strict=True)
        ]

    def squared_lengths(self, data: KernelData, i: int, D: ChainScores) -> np.ndarray:
        """||sum of D's parts in the space of group k||^2 (p,), D the difference of two outputs' parts of sequence i."""
        first, last = int(data.offsets[i]), int(data.offsets[i + 1])
        xp = array_namespace(D.unary)
        lengths = []
        for gram in data.grams:
            if gram is None:
                g = self.arrays.scatter_sum(data.rows.take(np.arange(first, last)), D.unary)
                lengths.append(float(xp.sum(g * g)))
            else:
                lengths.append(float(xp.sum(D.unary * xp.matmul(gram.block(first, last, slice(first, last)), D.unary))))
        return self.with_tables(np.array(lengths), np.full(len(lengths), float(xp.sum(D.pairwise * D.pairwise))))

    def with_tables(self, kernels: np.ndarray, tables: np.ndarray) -> np.ndarray:
        """(p,): what the kernels (K,) and the tables of transitions (q,) contribute, added up by group."""
        if self.transitions == "own":
            return np.append(kernels, tables[:1])
        return kernels + tables if self.transitions == "each" else kernels

    def squared_norms(self, data: KernelData, weights: KernelWeights) -> np.ndarray:
        """||theta_k||^2 (p,) from the weights themselves."""
        xp = array_namespace(weights.transitions)
        kernels = [
            float(xp.sum(A * A)) if gram is None else gram.square(A)
            for gram, A in zip(data.grams, weights.coefficients, strict=True)
        ]
        tables = host(xp.sum(weights.transitions**2, axis=(1, 2))).astype(np.float64)
        return self.with_tables(np.array(kernels), np.broadcast_to(tables, (len(tables),)))

    def fused_epoch(self, data: KernelData, rules: Rules) -> Callable[..., MKLState] | None:
        """A loop of rounds with the signature of :func:`epoch`; None: that one."""
        return None

    def mean_loss(self, data: KernelData, weights: KernelWeights, loss: str) -> float:
        """(1/n) sum_i loss_i."""
        whole = [
            self.arrays.gather_sum(data.rows, A) if gram is None else gram.times(0, gram.n, A)  # type: ignore[arg-type]
            for gram, A in zip(data.grams, weights.coefficients, strict=True)
        ]
        total = 0.0
        for i, (first, last) in enumerate(zip(data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True)):
            total += difference(self, data, i, [f[first:last, :] for f in whole], weights, loss)[1]
        return total / data.n

    def predict(self, data: KernelData, weights: KernelWeights, X: Any) -> list[np.ndarray]:
        """The best labelling (n_i,) of each of X, sequences of arrays (n_i, d), by weights learned on ``data``.

        Only the positions with coefficients that are not 0, and groups that are not 0, cost anything.
        """
        here, xp = Place.of(data.X), Place.of(data.X).xp
        pairwise = xp.sum(weights.transitions, axis=0)
        terms: list[tuple[Kernel | None, Array, Array]] = []
        for group, A in zip(self.groups, weights.coefficients, strict=True):
            support = np.flatnonzero(np.any(host(A) != 0, axis=1))
            if isinstance(group, Kernel) and len(support):
                at = here.integers(support)
                terms.append((group, xp.take(data.X, at, axis=0), xp.take(A, at, axis=0)))
            elif len(support):
                terms.append((None, A, A))
        found = []
        for i, x in enumerate(X):
            (x,) = floats(**{f"X[{i}]": here.floats(host(x))})
            if x.ndim != 2 or x.shape[1] != data.X.shape[1]:
                raise ValueError(f"X[{i}]: expected shape (n, {data.X.shape[1]}), got {tuple(x.shape)}")
            unary = here.zeros((x.shape[0], self.n_labels))
            for kernel, rows, A in terms:
                unary = unary + (xp.matmul(x, A) if kernel is None else xp.matmul(kernel(x, rows), A))
            found.append(host(self.structure_type.unchecked(ChainScores(unary, pairwise, None)).best()[1]))
        return found


def mkl(
    model: KernelSequenceModel,
    data: KernelData,
    *,
    lam: float,
    step_size: float | Callable[[np.ndarray, float], np.ndarray],
    loss: str = "hinge",
    penalty: Regularizer | None = None,
    sigma: float = 0.0,
    radius: float | None = None,
    epochs: int = 20,
    average: str = "last",
    evaluate_every: int = 1,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
) -> MKLResult:
    """Learn sequences by several kernels at once, and the kernels' weights.

    theta_k <- (1 - gamma sigma) theta_k - gamma D_k,   b = prox_{gamma penalty}(||theta_1||, ..., ||theta_p||),   theta_k <- (b_k / ||theta_k||) theta_k

    Parameters
    ----------
    model : KernelSequenceModel
    data : KernelData
        Packed by it, with labels.
    lam : float >= 0
        Weight of (1/2) (sum_k ||theta_k||)^2; C = 1/(lam n).
    step_size : float or schedule
        A number is a constant step; ``InverseSqrt(eta0)`` is eta0/sqrt(t), ``Pegasos()`` is 1/(sigma t).
    loss : {"hinge", "crf"}
    penalty : Regularizer, optional
        Another function of the p norms, even in each, in place of ``SquaredL1(lam)``: ``HalfSquaredL2(lam)`` is the SVM with the sum of the kernels,
        ``L1(tau)`` the group lasso.
    sigma : float >= 0
        Weight of (sigma/2) sum_k ||theta_k||^2, taken by the gradient step.
    radius : float > 0, optional
        Scales all groups back to norm ``radius`` together; ``reference.bounds.optimum_radius`` is one that never cuts the optimum off.
    epochs : int >= 0
        Passes over the sequences, each in a new random order.
    average : {"last", "uniform"}
        Which model is returned: the last, with the groups at 0 that the penalty left there, or the average of those that the rounds began with.
    evaluate_every : int >= 1
        Epochs between rows of the history; the last epoch has one.
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host, one permutation an epoch.
    callback : callable, optional
        Called as ``callback(row, weights)`` with each row. Stops the run by returning True or raising StopIteration.

    Returns
    -------
    MKLResult

    Raises
    ------
    ValueError, TypeError
        Options out of range; data without labels.

    Notes
    -----
    A round costs O(n_i N L) a kernel for a sequence of n_i positions, where its Gram matrix is held.

    Source
    ------
    Martins et al., Algorithm 3, *corrected*: the prox is that of (gamma lam/2) ||.||_1^2, a ratio 0/0 is 0, and the norms follow (17) with both
    lines mended: ||theta - gamma D||^2 = ||theta||^2 - 2 gamma <theta, D> + gamma^2 ||D||^2.

    Examples
    --------
    >>> from reference import Gaussian, InverseSqrt, KernelSequenceModel, Linear, mkl
    >>> model = KernelSequenceModel([Linear(), Gaussian(1.0)], labels=2)
    >>> X, Y = [[[0.0], [1.0]], [[2.0], [1.0]]], [[0, 1], [0, 1]]  # label 1 around 1, 0 on both sides
    >>> data = model.pack(X, Y)
    >>> result = mkl(model, data, lam=0.01, step_size=InverseSqrt(1.0), epochs=20, rng=0)
    >>> [labels.tolist() for labels in model.predict(data, result.x, X)]
    [[0, 1], [0, 1]]
    """
    penalty = SquaredL1(number("lam", lam)) if penalty is None else penalty
    rules = Rules(loss, penalty, sigma, radius, average)
    _check(model, data, rules)
    check_options(lam=lam, epochs=epochs, callback=callback)
    integer("evaluate_every", evaluate_every, 1)
    rng, schedule = generator(rng), step_size if callable(step_size) else Constant(real("step_size", step_size))
    run = model.fused_epoch(data, rules) or epoch
    zero = model.zeros(data)
    state = MKLState(zero, zero, 0)
    history: list[Row] = []
    norms: list[np.ndarray] = []
    seconds, message = 0.0, f"{epochs} epochs done"
    for k in range(1, epochs + 1):
        started = time.perf_counter()
        order = rng.permutation(data.n)
        steps = np.asarray(schedule(np.arange(state.t + 1, state.t + data.n + 1), sigma), dtype=np.float64)
        state = run(state, model, data, order, steps, rules)
        seconds += time.perf_counter() - started
        if k % evaluate_every and k < epochs:
            continue
        weights = chosen(state, model, data, rules)
        norms.append(np.sqrt(weights.squared_norms))
        history.append(Row(k, k * data.n, seconds, objective(model, data, weights, rules)))
        if wants_to_stop(callback, history[-1], weights):
            message = f"stopped by the callback after {k} of {epochs} epochs"
            break
    weights = chosen(state, model, data, rules)
    return MKLResult(
        x=weights,
        fun=history[-1].objective if history else objective(model, data, weights, rules),
        nit=history[-1].epoch if history else 0,
        success=True,
        message=message,
        iterate="last" if average == "last" else "uniform average",
        oracle_calls=state.t,
        certificate="none: the online proximal algorithm keeps no dual point",
        history=tuple(history),
        beta=weights.beta,
        norms=np.array(norms).reshape(len(norms), model.n_groups),
    )


def epoch(
    state: MKLState, model: KernelSequenceModel, data: KernelData, order: np.ndarray, steps: np.ndarray, rules: Rules
) -> MKLState:
    """One round for each sequence in ``order``; a fused epoch has this signature."""
    for i, gamma in zip(order.tolist(), steps.tolist(), strict=True):
        state = round_of(state, model, data, i, gamma, rules)
    return state


def chosen(state: MKLState, model: KernelSequenceModel, data: KernelData, rules: Rules) -> KernelWeights:
    """The weights to return, the averaged ones with their norms."""
    if rules.average == "last":
        return state.weights
    return state.mean._replace(squared_norms=model.squared_norms(data, state.mean))


def round_of(
    state: MKLState, model: KernelSequenceModel, data: KernelData, i: int, gamma: float, rules: Rules
) -> MKLState:
    """One round of Algorithm 3, lines 4 to 9, on sequence i."""
    weights, t = state.weights, state.t + 1
    each = model.group_scores(data, i, weights)
    D, _ = difference(model, data, i, each, weights, rules.loss)
    keep, xp = 1.0 - gamma * rules.sigma, array_namespace(D.unary)

    inner = np.array([float(xp.sum(f * D.unary)) for f in each])
    tables = host(xp.sum(weights.transitions * D.pairwise, axis=(1, 2))).astype(np.float64)
    before, length = weights.squared_norms, model.squared_lengths(data, i, D)
    squared = keep**2 * before - 2 * gamma * keep * model.with_tables(inner, tables) + gamma**2 * length  # (17)
    moved = np.sqrt(np.maximum(squared, 0.0))
    b = np.asarray(rules.penalty.prox(moved, gamma))
    if rules.radius is not None and (norm := np.sqrt(np.sum(b**2))) > rules.radius:
        b = b * (rules.radius / norm)
    factors = np.where(moved > 0, b / np.where(moved > 0, moved, 1.0), 0.0)

    coefficients = tuple(
        float(factor) * _plus(keep * A, -gamma, data, gram, i, D.unary, model)
        for factor, A, gram in zip(factors, weights.coefficients, data.grams, strict=False)
    )
    of_tables = {"own": factors[-1:], "each": factors, "free": np.ones(1)}[model.transitions]
    kept = keep if model.transitions != "free" else 1.0
    transitions = Place.of(D.unary).floats(of_tables)[:, None, None] * (kept * weights.transitions - gamma * D.pairwise)
    after = KernelWeights(coefficients, transitions, b**2)
    return MKLState(after, after if rules.average == "last" else _towards(state.mean, weights, 1.0 / t), t)


def difference(
    model: KernelSequenceModel, data: KernelData, i: int, each: Sequence[Array], weights: KernelWeights, loss: str
) -> tuple[ChainScores, float]:
    """Parts of the best loss-augmented output, or expected parts, less those of the true one; and the loss."""
    here = Place.of(data.X)
    xp, first, last = here.xp, int(data.offsets[i]), int(data.offsets[i + 1])
    true = data.labels[first:last]  # type: ignore[index]
    scores = ChainScores(
        sum(each, here.zeros((last - first, model.n_labels))), xp.sum(weights.transitions, axis=0), None
    )
    if loss == "hinge":
        scores = scores._replace(unary=scores.unary + xp.take(here.floats(model.cost), true, axis=0))
    chain = model.structure_type.unchecked(scores)
    value, parts = (
        chain.expectation() if loss == "crf" else (lambda best: (best[0], chain.parts(best[1])))(chain.best())
    )
    gold = chain.parts(true)
    value = float(value) - float(chain.score(true))
    return ChainScores(parts.unary - gold.unary, parts.pairwise - gold.pairwise, None), value


def objective(model: KernelSequenceModel, data: KernelData, weights: KernelWeights, rules: Rules) -> float:
    """Mean loss + penalty of the norms + sigma/2 times the sum of their squares."""
    penalty = float(rules.penalty.value(np.sqrt(weights.squared_norms)))
    return model.mean_loss(data, weights, rules.loss) + penalty + 0.5 * rules.sigma * float(weights.squared_norms.sum())


def _plus(
    A: Array, factor: float, data: KernelData, gram: Gram | None, i: int, D: Array, model: KernelSequenceModel
) -> Array:
    """A with factor times D's parts of sequence i: as coefficients, or as the sum of explicit features."""
    xp, first, last = array_namespace(A), int(data.offsets[i]), int(data.offsets[i + 1])
    if gram is None:
        return A + factor * model.arrays.scatter_sum(data.rows.take(np.arange(first, last)), D)  # type: ignore[union-attr]
    return xp.concat([A[:first, :], A[first:last, :] + factor * D, A[last:, :]])


def _towards(mean: KernelWeights, weights: KernelWeights, share: float) -> KernelWeights:
    """mean + share (weights - mean); its norms are left to whoever asks."""
    coefficients = tuple(m + share * (A - m) for m, A in zip(mean.coefficients, weights.coefficients, strict=True))
    transitions = mean.transitions + share * (weights.transitions - mean.transitions)
    return KernelWeights(coefficients, transitions, np.full_like(mean.squared_norms, np.nan))


def _check(model: Any, data: Any, rules: Rules) -> None:
    if not isinstance(model, KernelSequenceModel):
        raise TypeError(f"model: expected a KernelSequenceModel, got {type(model).__name__}")
    if not isinstance(data, KernelData) or len(data.grams) != len(model.groups):
        raise TypeError(f"data: expected what model.pack returned, got {type(data).__name__}")
    if data.labels is None:
        raise ValueError("Y: this data was packed without labels; pack(X, Y) gives them")
    if rules.loss not in ("hinge", "crf"):
        raise ValueError(f"loss: expected hinge or crf, got {rules.loss!r}")
    if not isinstance(rules.penalty, Regularizer):
        raise TypeError(f"penalty: expected a Regularizer such as SquaredL1(0.1), got {rules.penalty!r}")
    number("sigma", rules.sigma)
    if rules.radius is not None:
        number("radius", rules.radius, positive=True)
    if rules.average not in AVERAGES:
        raise ValueError(f"average: expected one of {', '.join(AVERAGES)}, got {rules.average!r}")
