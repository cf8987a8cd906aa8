"""Online multiple kernel learning for sequences: which kernels, and what with each, learned together.

Over the groups of weights theta_k of a :class:`KernelSequenceModel`, the problem is

    min  (1/n) sum_i loss_i(f) + (lam/2) (sum_k ||theta_k||)^2 + (sigma/2) sum_k ||theta_k||^2

and a round, with D the difference of the parts of the (expected) output and of the true one, takes a gradient step in every group, shrinks the groups' norms
by the prox of the penalty, and scales the groups to their new norms, and back into a ball where one is given. Source: Martins et al. 2010, Algorithm 3, *corrected*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, Place, host, integer, number, real
from reference.gram import Gram
from reference.kernels import Kernel, titled
from reference.models.kernel_sequence import KernelData, KernelSequenceModel, KernelWeights
from reference.optimizers.arguments import check_options
from reference.optimizers.result import Callback, Result
from reference.optimizers.runs import Run
from reference.optimizers.schedules import Constant
from reference.prox.base import Regularizer

__all__ = ["MKLResult", "mkl"]

AVERAGES = ("last", "uniform")


@dataclass(frozen=True, kw_only=True)
class MKLResult(Result):
    """A :class:`Result` whose x is a :class:`KernelWeights`.

    beta (p,): the kernels' weights at x; norms (nit, p): the groups' norms after each epoch, of the last model, whichever is returned.
    """

    beta: np.ndarray
    norms: np.ndarray


class MKLState(NamedTuple):
    """weights; mean: of w_1, ..., w_t, or the same, as asked; t: rounds done; norms: of the groups after each epoch; kept: what a fused epoch holds besides."""

    weights: KernelWeights
    mean: KernelWeights
    t: int
    norms: tuple[np.ndarray, ...] = ()
    kept: Any = None


class Rules(NamedTuple):
    """What a round goes by: loss, penalty of the norms, sigma, radius, which average is kept."""

    loss: str
    penalty: Regularizer
    sigma: float
    radius: float | None
    average: str


def mkl(
    model: KernelSequenceModel,
    data: KernelData,
    *,
    lam: float | None = None,
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
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> MKLResult:
    """Learn sequences by several kernels at once, and the kernels' weights.

    theta_k <- (1 - gamma sigma) theta_k - gamma D_k,   b = prox_{gamma penalty}(||theta_1||, ..., ||theta_p||),   theta_k <- (b_k / ||theta_k||) theta_k

    Parameters
    ----------
    model : KernelSequenceModel
    data : KernelData
        Packed by it, with labels.
    lam : float >= 0
        Weight of (1/2) (sum_k ||theta_k||)^2; C = 1/(lam n). Needed, unless there is a penalty.
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
    checkpoint, resume : path, optional
        Where to keep what the run needs to go on, and the file to go on from; see :class:`reference.optimizers.runs.Run`.

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
    >>> [labels.tolist() for labels in model.predict(result.x, X)]
    [[0, 1], [0, 1]]
    """
    if penalty is None and lam is None:
        raise ValueError("lam: expected a number >= 0, or a penalty in its place")
    lam = 0.0 if lam is None else lam
    number("lam", lam)
    if isinstance(penalty, Regularizer) and lam > 0:
        raise ValueError(f"lam: has no effect with a penalty, which has its own weight; got {lam}")
    _check_model(model)
    penalty = model.penalty_type(lam) if penalty is None else penalty  # type: ignore[call-arg]
    rules = Rules(loss, penalty, sigma, radius, average)
    _check(model, data, rules)
    check_options(lam=lam, epochs=epochs, callback=callback)
    integer("evaluate_every", evaluate_every, 1)
    schedule = step_size if callable(step_size) else Constant(real("step_size", step_size))
    fused = model.fused_epoch(data, rules)
    go, zero = fused or epoch, model.zeros(data)
    options = {**rules._asdict(), "lam": lam, "step_size": schedule, "evaluate_every": evaluate_every}
    options |= {"groups": ", ".join(map(titled, model.groups)), "transitions": model.transitions}
    run = Run("mkl", data, zero, options, epochs, rng, callback, checkpoint, resume, loop=fused)
    state = run.resumed(MKLState(zero, zero, 0))
    with run:
        known = state.t > 0 or epochs == 0
        run.begin(zero, objective(model, data, chosen(state, model, data, rules), rules) if known else np.nan)
        for k in run.epochs():
            with run.timed():
                order = run.rng.permutation(data.n)
                steps = np.asarray(schedule(np.arange(state.t + 1, state.t + data.n + 1), sigma), dtype=np.float64)
                state = go(state, model, data, order, steps, rules)
            state = state._replace(norms=(*state.norms, np.sqrt(state.weights.squared_norms)))
            if k % evaluate_every == 0 or k == epochs:
                weights = chosen(state, model, data, rules)
                run.record(state, weights, objective(model, data, weights, rules), calls=state.t, epoch=k)
    result = run.result(
        run.ending or (True, f"{epochs} epochs done"),
        iterate="last" if average == "last" else "uniform average",
        certificate="none: the online proximal algorithm keeps no dual point",
    )
    norms = np.array(state.norms[: result.nit]).reshape(-1, model.n_groups)
    return MKLResult(**vars(result), beta=result.x.beta, norms=norms)


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
    D, _ = model.difference(data, i, each, weights, rules.loss)
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
    after = KernelWeights(coefficients, transitions, b**2, weights.rows)
    mean = after if rules.average == "last" else _towards(state.mean, weights, 1.0 / t)
    return MKLState(after, mean, t, state.norms)


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
    return mean._replace(
        coefficients=coefficients, transitions=transitions, squared_norms=np.full_like(mean.squared_norms, np.nan)
    )


def _check_model(model: Any) -> None:
    if not isinstance(model, KernelSequenceModel):
        raise TypeError(f"model: expected a KernelSequenceModel, got {type(model).__name__}")


def _check(model: Any, data: Any, rules: Rules) -> None:
    if not isinstance(data, KernelData) or len(data.grams) != len(model.groups):
        raise TypeError(f"data: expected what model.pack returned, got {type(data).__name__}")
    if data.labels is None:
        raise ValueError("Y: this data was packed without labels; pack(X, Y) gives them")
    implicit = [isinstance(group, Kernel) for group in model.groups]
    if (
        implicit != [gram is not None for gram in data.grams]
        or int(np.max(host(data.labels), initial=0)) >= model.n_labels
    ):
        raise ValueError(
            f"data: packed for other groups, or with labels beyond the model's {model.n_labels}: it is another model's"
        )
    if rules.loss not in ("hinge", "crf"):
        raise ValueError(f"loss: expected hinge or crf, got {rules.loss!r}")
    if not isinstance(rules.penalty, Regularizer):
        raise TypeError(f"penalty: expected a Regularizer such as SquaredL1(0.1), got {rules.penalty!r}")
    number("sigma", rules.sigma)
    if rules.radius is not None:
        number("radius", rules.radius, positive=True)
    if rules.average not in AVERAGES:
        raise ValueError(f"average: expected one of {', '.join(AVERAGES)}, got {rules.average!r}")
