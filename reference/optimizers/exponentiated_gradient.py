"""Online exponentiated gradient on the dual of the CRF's log loss and of the structural hinge: one example's distribution at a time.

    min_w  lam/2 ||w||^2 + (1/n) sum_i mu log sum_y exp([loss_i(y) + <v_i(y), w>] / mu),   v_i(y) = phi(x_i, y) - phi(x_i, y_i)
    max_alpha  (1/n) sum_i [mu H(alpha_i) + sum_y alpha_i(y) loss_i(y)] - lam/2 ||w(alpha)||^2,   w(alpha) = -1/(lam n) sum_i sum_y alpha_i(y) v_i(y)

with each alpha_i in the simplex over the outputs of example i and H its entropy; the log loss has mu = 1 and no task loss, the hinge mu = 0. An
alpha_i is kept as local scores theta_i, alpha_i(y) ~ exp(score of y under theta_i), so that the structure's exp oracle gives its
marginals and, exactly, its entropy: H = log Z(theta_i) - <theta_i, marginals>. Source: Collins, Globerson, Koo, Carreras and Bartlett (2008),
"Exponentiated gradient algorithms for conditional random fields and max-margin Markov networks"; a baseline of Pillutla et al., Table 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array, host, integer, number, real, squared_norm
from reference.objectives import _total
from reference.optimizers.arguments import check_objective, check_options, refuse_nonlinear
from reference.optimizers.nonnegative import clipped, constraint
from reference.optimizers.result import Callback, Result
from reference.optimizers.runs import Run
from reference.optimizers.verdicts import reaches, verdict
from reference.smoothing import Entropy
from reference.structures.base import IntractableError, UnsupportedError, feasible
from reference.structures.scores import Scores, add, inner
from reference.weighted import Weighted

__all__ = ["EGState", "Point", "exponentiated_gradient"]

SAMPLINGS = ("gains", "permutation")
CONCENTRATION = 5.0  # the theta_i to begin with is minus so many task losses: most weight lies near the truth
FIRST_TRIES, SHARPER = 12, 1.5  # an example is begun with so many times as many task losses until the dual rises
GROWTH, SHRINKAGE = 1.1, 0.5  # of an example's step size after a step that is taken, and after one that is not
UNIFORM = 0.2  # the share of visits that gains have no say in
ROUNDING = 16  # times eps: a dual that falls by so much of its terms has not fallen


class Point(NamedTuple):
    """alpha_i of one example: local scores theta, and parts, the marginals (or the truth's, where all weight lies on it)."""

    theta: Scores
    parts: Scores


class EGState(NamedTuple):
    """x = w(alpha) (d,), not clipped; points: example number to :class:`Point`; an example without one has all weight on its true output.

    On the host, (n,) each: values mu H(alpha_i) + sum_y alpha_i(y) loss_i(y); steps, the next step sizes; rates, the dual's gain at the
    last step taken, over its size. calls: of the exp oracle, so far. A fused epoch keeps the points in a form of its own.
    """

    x: Array
    values: np.ndarray
    steps: np.ndarray
    rates: np.ndarray
    calls: int
    points: Any


def exponentiated_gradient(
    objective: Any,
    *,
    lam: float,
    mu: float | None = None,
    step_size: float | None = None,
    epochs: int = 100,
    tol: float | None = 1e-3,
    sampling: str = "gains",
    evaluate_every: int = 1,
    rng: int | np.random.Generator | None = None,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Train a CRF, or a structural SVM, by online exponentiated gradient on its dual, until the duality gap is small.

    A visit of example i multiplies its probabilities by exponentials of the dual's gradient, which is a step of its local scores:

    alpha_i(y) <- alpha_i(y)^(1 - eta) exp(eta [loss_i(y) + score_i(y; w)] / mu) / norm,   theta_i <- (1 - eta) theta_i + eta [loss_i + scores_i(w)] / mu,

    and for mu = 0, theta_i <- theta_i + eta [loss_i + scores_i(w)]. Where the dual would fall, the step is not taken and the next one is half
    as long; else it is a tenth longer, at most 1 for mu > 0.

    Parameters
    ----------
    objective : LogLoss or StructuralHinge
        Its model's structure answers ``expectation``. Weights that its ``nonnegative`` names are kept >= 0.
    lam : float > 0
        Weight of the squared norm; in other conventions C = 1/(lam n), or crfsuite's c2 = lam n / 2.
    mu : float >= 0, optional
        Temperature; default the objective's own: 1 for the log loss, 0 for the hinge itself. Above 0 a hinge needs ``smoothing=Entropy()``.
    step_size : float > 0, optional
        The first eta of each example. For mu > 0 at most 1, default 0.3; for mu = 0 in units of 1/score, default 3.
    epochs : int >= 0
        At most so many times n visits.
    tol : float >= 0, optional
        Stop when gap <= tol * objective; None: after ``epochs``.
    sampling : {"gains", "permutation"}
        From the third epoch on: which examples are visited. "gains": four in five visits go to examples in proportion to what their last step gained,
        over its size; "permutation": each example once.
    evaluate_every : int >= 1
        Epochs from one evaluation of the objective, with its row, its callback and the look at ``tol``, to the next. One costs about half an epoch.
    rng : int, numpy.random.Generator or None
        Orders are drawn with NumPy on the host.
    callback : callable, optional
        Called as ``callback(row, w)`` after each evaluation, with a :class:`Row`
        and the weights (d,) that would be returned then, which are to be left as they are. Stops the run by returning
        True or raising StopIteration.
    checkpoint, resume : path, optional
        A file to keep what the run needs to go on, and such a file to go on from, by the same options.

    Returns
    -------
    Result
        ``certificate`` is the duality gap of the weights. ``success`` is False where a ``tol`` > 0 was not reached. A gap next to rounding may
        come out below 0.

    Raises
    ------
    ValueError
        Options out of range; a smoothing other than the entropy at mu > 0.
    UnsupportedError, IntractableError
        A structure without ``expectation``, or where no algorithm could compute it.
    TypeError
        An objective that is none of ours: any other has no dual that is known.

    Notes
    -----
    The dual never falls, up to rounding, unless outputs other than the truth cost nothing. One call of the exp oracle a visit, but that an example's
    first visit tries up to twelve distributions, ever nearer to the truth. Memory: local scores and marginals of each example; in the compiled epoch
    16 L bytes a position and 16 L^2 a sequence. For the hinge itself the gap falls like 1/epochs, and ``bcfw`` is the better choice.

    Source
    ------
    Collins et al. (2008), sections 3 to 6 (the online updates); the step sizes and the sampling are ours.

    Examples
    --------
    >>> from reference import LogLoss, MulticlassModel, exponentiated_gradient
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0, 1], [1]], ["a", "b", "b"])  # the active features of three examples, and their labels
    >>> result = exponentiated_gradient(LogLoss(model, data), lam=0.1, tol=1e-6, rng=0)
    >>> result.success, result.certificate <= 1e-6 * result.fun
    (True, True)
    """
    integer("evaluate_every", evaluate_every, 1)
    mu, eta = _check(objective, lam, mu, step_size, tol, sampling)
    check_options(lam=lam, epochs=epochs, callback=callback)
    epoch_of = getattr(objective, "fused_epoch", lambda name: None)("exponentiated_gradient") or epoch
    zero, where = objective.zeros(), constraint(objective)
    asked = {"lam": lam, "mu": mu, "step_size": eta, "sampling": sampling, "evaluate_every": evaluate_every}
    solved = reaches(tol, zero)
    run = Run(
        "exponentiated_gradient",
        objective,
        zero,
        asked,
        epochs,
        rng,
        callback,
        checkpoint,
        resume,
        reached=solved,
        loop=epoch_of,
    )
    with run:
        state = run.resumed(init(objective, eta))
        fun, dual = _bounds(objective, state, lam, mu)
        run.begin(clipped(state.x, where), fun, fun - dual)
        for k in run.epochs():
            with run.timed():
                state = epoch_of(state, objective, _order(run.rng, state, k, sampling), lam=lam, mu=mu)
            if k % evaluate_every == 0 or k == epochs:
                fun, dual = _bounds(objective, state, lam, mu)
                run.record(state, clipped(state.x, where), fun, calls=state.calls, dual=dual, epoch=k)
    return run.result(verdict(run, tol, epochs), iterate="last", certificate=run.gap)


def init(objective: Any, step_size: float) -> EGState:
    """All weight on the true outputs, whose task loss is 0."""
    n = objective.n
    return EGState(objective.zeros(), np.zeros(n), np.full(n, float(step_size)), np.zeros(n), 0, {})


def epoch(state: EGState, objective: Any, order: np.ndarray, *, lam: float, mu: float) -> EGState:
    """A visit of each example in ``order``; a fused epoch has this signature."""
    for i in order.tolist():
        state = step(state, objective, i, lam, mu)
    return state


def step(state: EGState, objective: Any, i: int, lam: float, mu: float) -> EGState:
    """A visit of example i: the equations above, with alpha_i left as it was where the dual would fall.

    n (new dual - old dual) = new value - old value - lam n/2 (||new w||^2 - ||old w||^2)
    """
    model, data, where = objective.model, objective.data, constraint(objective)
    w, lam_n, eta, calls = clipped(state.x, where), lam * objective.n, float(state.steps[i]), state.calls
    (piece,) = model.chunks(data, np.array([i]))
    scores, task_loss = model.scores(data, piece, w), model.task_loss(data, piece)
    target = add(scores, task_loss) if objective.loss_augmented else scores
    first = i not in state.points
    old = _start(task_loss, model.gold(data, piece), i) if first else state.points[i]
    for left in reversed(range(FIRST_TRIES if first else 1)):
        theta = mixed(old.theta, target, 1.0 - eta, eta / mu) if mu > 0 else mixed(old.theta, target, 1.0, eta)
        log_z, parts = model.structure_type.unchecked(theta).expectation(1.0)
        calls, used = calls + 1, inner(theta, parts)
        entropy = _total(feasible(log_z, "expectation") if hasattr(log_z, "ndim") else log_z) - used
        value = mu * entropy + (inner(task_loss, parts) if objective.loss_augmented else 0.0)
        x = state.x + model.pullback(data, piece, w, add(old.parts, parts, -1.0)) / lam_n
        growth = 0.5 * lam_n * _growth(w, clipped(x, where))
        gain = value - float(state.values[i]) - growth
        lost = ROUNDING * float(array_namespace(x).finfo(x.dtype).eps) * (abs(value) + mu * abs(used) + abs(growth))
        if gain >= -lost or (first and left == 0 and np.isfinite(gain)):
            return EGState(
                x,
                _put(state.values, i, value),
                _put(state.steps, i, min(GROWTH * eta, 1.0) if mu > 0 else GROWTH * eta),
                _put(state.rates, i, max(gain, 0.0) / eta),
                calls,
                {**state.points, i: Point(theta, parts)},
            )
        old = Point(add(old.theta, old.theta, SHARPER - 1.0), old.parts)
    return state._replace(steps=_put(state.steps, i, SHRINKAGE * eta), calls=calls)


def mixed(theta: Scores, target: Scores, keep: float, share: float) -> Scores:
    """keep theta + share target, field by field; a part that target forbids (-inf) is forbidden."""

    def field(mine: Array, theirs: Array) -> Array:
        xp = array_namespace(mine, theirs)
        forbidden = theirs == -xp.inf
        nothing = xp.zeros_like(theirs)
        finite = keep * xp.where(forbidden, nothing, mine) + share * xp.where(forbidden, nothing, theirs)
        return xp.where(forbidden, theirs, finite)

    if not isinstance(theta, tuple):
        return field(theta, target)
    layout = getattr(theta, "layout", ())
    return type(theta)(
        *(
            mine if name in layout else field(mine, theirs)
            for name, mine, theirs in zip(theta._fields, theta, target, strict=True)  # type: ignore[attr-defined]
        )
    )


def _start(task_loss: Scores, gold: Scores, i: int) -> Point:
    """All weight on the truth, to be left for a distribution about it."""
    if (own := inner(task_loss, gold)) != 0:
        raise ValueError(f"task_loss: expected 0 for the true output, got {own} in example {i}")
    return Point(add(task_loss, task_loss, -1.0 - CONCENTRATION), gold)


def _growth(old: Array, new: Array) -> float:
    """||new||^2 - ||old||^2, without the cancellation, in float64 on the host."""
    before, after = host(old).astype(np.float64), host(new).astype(np.float64)
    return float((after - before) @ (after + before))


def _put(values: np.ndarray, i: int, value: float) -> np.ndarray:
    values = values.copy()
    values[i] = value
    return values


def _order(rng: np.random.Generator, state: EGState, k: int, sampling: str) -> np.ndarray:
    """The examples to visit in epoch k."""
    n, rates = len(state.rates), state.rates
    if sampling == "permutation" or k <= 2 or not 0 < np.sum(rates) < np.inf:
        return rng.permutation(n)
    return rng.choice(n, n, p=(1 - UNIFORM) * rates / np.sum(rates) + UNIFORM / n)


def _bounds(objective: Any, state: EGState, lam: float, mu: float) -> tuple[float, float]:
    """Objective and dual."""
    w = clipped(state.x, constraint(objective))
    quadratic = 0.5 * lam * squared_norm(w)
    return objective.value_and_gradient(w, None, mu)[0] + quadratic, float(np.mean(state.values)) - quadratic


def _check(
    objective: Any, lam: float, mu: float | None, step_size: float | None, tol: float | None, sampling: str
) -> tuple[float, float]:
    """The temperature and the first step size, all arguments checked."""
    if isinstance(objective, Weighted):
        raise TypeError(
            "objective: exponentiated_gradient knows no weights of examples, got Weighted; lbfgs, svrg, bcfw and others do"
        )
    check_objective(objective, "zeros", "model", "data", "loss_augmented")
    refuse_nonlinear("exponentiated_gradient", objective)
    if not 0 < real("lam", lam) < np.inf:
        raise ValueError(f"lam: the dual needs a finite number > 0, got {lam}")
    mu = objective._mu(mu)
    structure = objective.model.structure_type
    if "expectation" in getattr(structure, "intractable", {}):
        raise IntractableError(f"exponentiated_gradient needs expectation(): {structure.intractable['expectation']}")
    if not structure.supports("expectation"):
        raise UnsupportedError(f"exponentiated_gradient needs expectation(), which {structure.__name__} lacks")
    if mu > 0 and not isinstance(objective.smoothing, Entropy):
        raise ValueError(
            f"objective: the dual at mu = {mu:g} is that of smoothing=Entropy(), got smoothing={objective.smoothing}"
        )
    if step_size is None:
        step_size = 0.3 if mu > 0 else 3.0
    step_size = number("step_size", step_size, positive=True)
    if mu > 0 and step_size > 1:
        raise ValueError(f"step_size: expected at most 1 for mu > 0, got {step_size}")
    if tol is not None:
        number("tol", tol)
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling: expected one of {', '.join(SAMPLINGS)}, got {sampling!r}")
    return mu, step_size
