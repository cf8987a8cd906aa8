"""Multi-sample dual updates: several outputs of an example at once enter the dual of the structural SVM.

    F_T(w) = sum_t lam/2 ||w||^2 + max_y [loss_t(y) + <v_t(y), w>],   v_t(y) = phi(x_t, y) - phi(x_t, y_t)
    D_T(alpha) = sum_t sum_y alpha_t(y) loss_t(y) - lam T/2 ||w||^2,   w = -1/(lam T) sum_t sum_y alpha_t(y) v_t(y)

alpha_t >= 0 of sum <= 1. Step t adds block t, so w first becomes (t-1)/t w; max D_T = min F_T. Source: Branson et al. (2013),
"Efficient large-scale structured learning", Algorithms 1 to 3, *corrected* (see ``sample_updates``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, Place, host, integer, squared_norm
from reference.models.multiclass import MulticlassModel
from reference.objectives import Corners
from reference.optimizers.arguments import check_hinge, check_options
from reference.optimizers.nonnegative import refuse_constraint
from reference.optimizers.result import Callback, Result
from reference.optimizers.runs import Run
from reference.optimizers.sample_updates import exact_update, expand_and_swap, multiclass_update
from reference.optimizers.verdicts import reaches, verdict
from reference.smoothing import positive_mu
from reference.structures.base import at_most
from reference.structures.proposals import Sampler

__all__ = ["Mixture", "MultisampleState", "multisample"]

SAMPLERS = ("topk", "gibbs")
UPDATES = ("moves", "exact")
AVERAGES = ("last", "uniform")


class Mixture(NamedTuple):
    """An example's block as one output: sum_y alpha(y) v(y) / sum_y alpha(y), a direction (d,), and the loss likewise."""

    direction: Array
    loss: float


class MultisampleState(NamedTuple):
    """x = w (d,); loss = sum_t sum_y alpha_t(y) loss_t(y); mean = (w^0 + ... + w^{t-1})/t after t steps; blocks: how many there are.

    weights (n,), on the host: sum_y alpha_i(y) of each example's block, and mixtures, its :class:`Mixture`, by example number; both empty
    in an online run, which does not come back to a block.
    """

    x: Array
    loss: float
    mean: Array
    t: int
    blocks: int
    weights: np.ndarray
    mixtures: dict[int, Mixture]

    def dual(self, lam: float) -> float:
        """D_T(alpha) / T."""
        return self.loss / max(self.blocks, 1) - 0.5 * lam * squared_norm(self.x)


def multisample(
    objective: Any,
    *,
    lam: float,
    k: int = 5,
    sampler: str | Sampler = "topk",
    mu: float = 1.0,
    update: str = "moves",
    online: bool = False,
    average: str = "last",
    epochs: int = 100,
    tol: float | None = 1e-3,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Train a structural SVM by dual updates over several outputs of an example, until the duality gap is small.

    A visit of example i takes k outputs y_1, ..., y_k, y_1 the one of highest loss_i(y) + <v_i(y), w>, and raises the dual over their weights:

    max_alpha  sum_j alpha_j (loss_i(y_j) + <v_i(y_j), w>) - ||sum_j alpha_j v_i(y_j)||^2 / (2 lam t),  alpha >= 0, sum alpha <= 1

    Then all weights of all blocks are multiplied by the number in [0, 1] that suits the dual best, which keeps
    lam ||w||^2 <= max_{i, y} loss_i(y).

    Parameters
    ----------
    objective : object with ``n``, ``zeros()``, ``value_and_gradient(w, batch, mu)``, ``corners(w, batch, k)``
        A structural hinge, not smoothed; for ``sampler="gibbs"`` with ``sampled_corners(w, batch, k, mu, rng)``.
    lam : float > 0
        Weight of the squared norm; C = 1/(lam n).
    k : int >= 1
        Outputs of a visit; fewer where there are fewer.
    sampler : {"topk", "gibbs"} or callable
        The k best loss-augmented outputs; or the best and k - 1 drawn with probability proportional to exp((score +
        loss) / mu); or the
        best and what ``sampler(i, space, size, rng)`` proposes for example i: at most size = k - 1 outputs, as
        ``space.parts`` takes them,
        the best and equal ones among them or not. ``space`` is the example's structure at the current weights, no
        batch, with the task
        loss added to the scores; ``rng`` the run's numpy.random.Generator. Updates need no probabilities of what is
        proposed.
    mu : float > 0
        Temperature of ``"gibbs"``.
    update : {"moves", "exact"}
        One round of expand and swap moves, or the maximum: in closed form for a new block of a :class:`MulticlassModel`.
    online : bool
        Whether an example met again is a new one, with a block of its own (Algorithm 3 as printed: T blocks after T steps, O(d) memory), or
        goes on from the weights that it has (n blocks: the dual rises to the optimum).
    average : {"last", "uniform"}
        Which iterate is returned: w^T, or the mean of w^0, ..., w^{T-1}, for which Theorem 2.1 speaks.
    epochs : int >= 0
        At most so many passes.
    tol : float >= 0, optional
        Stop when gap <= tol * objective; None: after ``epochs`` passes.
    rng : int, numpy.random.Generator or None
        Orders (one permutation a pass) and draws, on the host.
    callback : callable, optional
        Called as ``callback(row, w)`` after each pass, with a :class:`Row` and the weights (d,) that would be returned then, which are to be
        left as they are. Stops the run by returning True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options.

    Returns
    -------
    Result
        ``certificate`` is the duality gap: the objective at the returned weights less the highest dual after a pass. Duals in
        ``history`` are such, D_T / T: they bound this problem's optimum after complete passes only.

    Raises
    ------
    ValueError
        Options out of range; a hinge with a smoothing; weights that must be >= 0; a sampler that proposes more than k -
        1 outputs, or one
        that is impossible.
    UnsupportedError, TypeError
        An objective without corners, such as the log loss; a structure without ``topk`` or ``sample`` for k > 1; a
        sampler that returns no
        list of outputs.

    Notes
    -----
    Whatever the samples are, each step has the best output, and raises D_T by at least f(w; Z_t) - ||lam w +
    v_t(y_1)||^2 / (2 lam t) where the block is new, and never lowers it. One oracle call a
    visit, whatever k is. A visit takes O(k d + k^2) beside the oracle; memory O(k d), and O(n d) for blocks to come back to. An update over
    directions too long for their products to be numbers is not made.

    Source
    ------
    Branson et al. (2013), supplement: Algorithms 1 to 3, Lemmas 2.2 to 2.5, *corrected*; the radius sqrt(1/lam) of the print holds for losses up to 1.

    Examples
    --------
    >>> from reference import MulticlassModel, StructuralHinge, multisample
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> result = multisample(StructuralHinge(model, data), lam=0.1, k=2, tol=1e-3, rng=0)
    >>> result.success, result.certificate <= 1e-3 * result.fun
    (True, True)
    """
    check_hinge("multisample", objective, lam, tol)
    check_options(lam=lam, epochs=epochs, callback=callback)
    k, mu = integer("k", k, 1), positive_mu(mu)
    at_most("k", k, k)  # inner products of the outputs of a visit
    for name, value, choices in (
        ("sampler", "topk" if callable(sampler) else sampler, SAMPLERS),
        ("update", update, UPDATES),
        ("average", average, AVERAGES),
    ):
        if value not in choices:
            more = " or a callable" if name == "sampler" else ""
            raise ValueError(f"{name}: expected one of {', '.join(choices)}{more}, got {value!r}")
    refuse_constraint("multisample", objective)
    asked = {"lam": lam, "k": k, "sampler": sampler, "mu": mu, "update": update, "online": online, "average": average}
    zero = objective.zeros()
    solved = reaches(tol, zero)
    run = Run("multisample", objective, zero, asked, epochs, rng, callback, checkpoint, resume, reached=solved)
    with run:  # see Notes
        state = run.resumed(init(objective))
        x = state.x if average == "last" else state.mean
        fun = objective.value_and_gradient(x, None, None)[0] + 0.5 * lam * squared_norm(x)
        run.begin(x, fun, fun)
        best = max([0.0, *(row.dual or 0.0 for row in run.history)])
        for epoch in run.epochs():
            with run.timed():
                for i in run.rng.permutation(objective.n).tolist():
                    corners = outputs(objective, state.x, i, k=k, sampler=sampler, mu=mu, rng=run.rng)
                    state = step(state, objective, i, corners, lam=lam, update=update, online=online)
            x, best = state.x if average == "last" else state.mean, max(best, state.dual(lam))
            fun = objective.value_and_gradient(x, None, None)[0] + 0.5 * lam * squared_norm(x)
            run.record(state, x, fun, calls=epoch * objective.n, dual=best)
    iterate = "last" if average == "last" else "uniform average"
    return run.result(verdict(run, tol, epochs), iterate=iterate, certificate=run.gap)


def init(objective: Any) -> MultisampleState:
    """No blocks: w = 0."""
    zero = objective.zeros()
    return MultisampleState(zero, 0.0, zero, 0, 0, np.zeros(objective.n), {})


def outputs(
    objective: Any, w: Array, i: int, *, k: int, sampler: str | Sampler, mu: float, rng: np.random.Generator
) -> Corners:
    """The samples of example i at w, the best loss-augmented output first."""
    if sampler == "topk":
        return objective.corners(w, [i], k)
    if sampler == "gibbs":
        return objective.sampled_corners(w, [i], k, mu, rng)
    return objective.sampled_corners(w, [i], k, mu, rng, sampler)


def step(
    state: MultisampleState, objective: Any, i: int, corners: Corners, *, lam: float, update: str, online: bool
) -> MultisampleState:
    """A visit of example i with these samples, found at ``state.x``: its block is new, or goes on from its mixture."""
    place = Place.of(state.x)
    xp, found = place.xp, int(host(corners.count)[0])
    V, losses = corners.directions[0, :found, :], host(corners.losses)[0, :found].astype(np.float64)
    mixture = None if online else state.mixtures.get(i)
    x, blocks, start = state.x, state.blocks, np.zeros(found)
    if mixture is None:
        blocks += 1
        x = ((blocks - 1) / blocks) * x
    else:
        V, losses = xp.concat([mixture.direction[None, :], V]), np.append(mixture.loss, losses)
        start = np.append(state.weights[i], start)
    alpha = _updated(objective, x, V, losses, start, lam * blocks, update)
    weights, mixtures = state.weights, state.mixtures
    mixed, whole = mixture or Mixture(xp.zeros_like(x), 0.0), float(np.sum(alpha))
    if np.any(alpha != start):  # else V may hold what is no number
        x = x - (1.0 / (lam * blocks)) * (place.floats(alpha - start) @ V)
        if whole > 0:
            mixed = Mixture(place.floats(alpha / whole) @ V, float(alpha @ losses) / whole)
    loss = state.loss + float((alpha - start) @ losses)
    shrink = _best_scale(loss, lam * blocks * squared_norm(x))
    if not online:
        mixtures = {**mixtures, i: mixed}
        weights = shrink * np.where(np.arange(len(weights)) == i, whole, weights)
    mean = state.mean + (state.x - state.mean) / (state.t + 1)
    return MultisampleState(shrink * x, shrink * loss, mean, state.t + 1, blocks, weights, mixtures)


def _updated(
    objective: Any, x: Array, V: Array, losses: np.ndarray, start: np.ndarray, lam_t: float, update: str
) -> np.ndarray:
    """The block's new weights; x is w with the weights ``start`` in it."""
    rows = host(V).astype(np.float64, copy=False)
    Q = rows @ rows.T / lam_t
    b = losses + rows @ host(x) + Q @ start
    if not (np.all(np.isfinite(Q)) and np.all(np.isfinite(b))):
        return start
    if update == "moves":
        return expand_and_swap(Q, b, start)
    if isinstance(getattr(objective, "model", None), MulticlassModel) and not np.any(start):
        return _of_classes(Q, b, losses, lam_t)
    return exact_update(Q, b, start)


def _of_classes(Q: np.ndarray, b: np.ndarray, losses: np.ndarray, lam_t: float) -> np.ndarray:
    """The closed form over the wrong classes; the true one has direction 0 and loss 0, and so have wrong ones that do not matter."""
    wrong = (np.diag(Q) > 0) | (losses > 0)
    alpha = np.zeros(len(b))
    if np.any(wrong):
        alpha[wrong] = multiclass_update(-lam_t * b[wrong], 0.5 * lam_t * float(np.max(np.diag(Q))))
    return alpha


def _best_scale(loss: float, quadratic: float) -> float:
    """argmax of s loss - s^2 quadratic / 2 over 0 <= s <= 1: lam T ||w||^2 is no more than the loss afterwards.

    So ||w||^2 <= max loss / lam without a projection (Algorithm 3, line 5), which would raise the dual by less.
    """
    return min(1.0, loss / quadratic) if quadratic > 0 else 1.0
