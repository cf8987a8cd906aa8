"""The epoch of the online proximal algorithm as a kernel, for proxes that can be applied later to rows of weights that
a round does not touch.

Shrinking and thresholding of all weights add up over rounds in closed form
(:mod:`accelerated.compiled.epochs.online_proximal.thresholds`). A prox of group norms scales groups, and scales
multiply (:mod:`accelerated.compiled.epochs.online_proximal.group_scales`), also for groups that nest or cross: those
are unions of disjoint parts. So a round costs its sequence's features, and a number for each group. Other regularizers
run the reference's loop: l1 and groups together, sets such as the simplex, regularizers of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import reference.prox
from accelerated import prox
from accelerated.arrays import like, view
from accelerated.compiled.epochs.online_proximal.group_scales import Parted, Rounds, group_epoch
from accelerated.compiled.epochs.online_proximal.thresholds import Shrinking, threshold_epoch
from accelerated.compiled.problems.weights import Weights, zeros_like
from accelerated.compiled.prox.grouped import BALL, POWER, RIDGE, SQUARE, SUM, SUM_BALL, Proxes
from accelerated.kept import Kept
from accelerated.optimizers.sgd import steps_of
from accelerated.problems import finite, has_edges, problem_of, touched_of
from reference.optimizers import online_proximal
from reference.optimizers.base import Objective
from reference.optimizers.online_proximal import OnlineProximalState
from reference.prox.groups import Groups

__all__ = ["OnlineProximal", "OnlineProximalState"]

THRESHOLD = -1  # the operation of l1, beside those of norms
LEAST, MOST = 1e-90, 1e90  # the range of initial norms and of operations' weights that the kernels support


class CannotWait(Exception):
    """A prox that cannot be applied to rows of weights later."""


class Operation(NamedTuple):
    """One prox of a sequence, with the fields of :class:`Proxes`."""

    kind: int
    weight: float
    damp: float
    power: float = 0.0
    groups: Groups | None = None
    weights: np.ndarray | None = None


class Plan(NamedTuple):
    """Operations for weights (d,). With groups, ``label`` (d,) is the part of each weight; the last part holds the
    weights in no group.
    """

    operations: tuple[Operation, ...]
    label: np.ndarray
    proxes: Any = None  # a :class:`Proxes`, where there are groups


class OnlineProximal(online_proximal.OnlineProximal):
    # a round costs its example's features and a number for each group, for l1, ridge, elastic net and regularizers of
    # group norms; those that mix coordinates and groups (sparse group lasso) cost O(d)

    @classmethod
    def fits(cls, box: online_proximal.OnlineProximal, objective: Any) -> bool:
        """One example at a time, without features of pairs of neighbours."""
        return box.batch_size == 1 and not has_edges(objective)

    def sweep(self, objective: Objective, state: OnlineProximalState, order: np.ndarray) -> OnlineProximalState:
        target: Any = objective
        model, mu = target.model, target._mu(self.mu)
        problem, x, steps = problem_of(target, mu), view("w0", state.x), steps_of(self, state, order, self.sigma)
        plan = _plan(target, self.proxes, len(x))
        usable = problem is not None and np.all(steps * self.sigma <= 1) and finite(x)
        if not usable or plan is None or len(order) == 0:
            return super().sweep(objective, state, order)
        w, averaged = model.padded(x), self.average != "last"
        sums = zeros_like(w, any=averaged)
        run = _threshold if plan.proxes is None else _scale_groups
        if not run(plan, target, problem, x, Rounds(order, steps, self.sigma), mu, averaged, w, sums):
            return super().sweep(objective, state, order)
        t, last = state.t + len(order), like(model.flat(*w), state.x)
        if not averaged:
            return OnlineProximalState(last, last, t)
        mean = (state.t * view("mean", state.mean) + model.flat(*sums)) / t
        return OnlineProximalState(last, like(mean, state.x), t)


def _threshold(
    plan: Plan,
    objective: Any,
    problem: Any,
    x: np.ndarray,
    rounds: Rounds,
    mu: float,
    averaged: bool,
    w: Weights,
    sums: Weights,
) -> bool:
    order, steps, sigma = rounds
    keep = 1.0 - steps * sigma
    clear = keep == 0
    keep[clear] = 1.0
    C, T = keep.copy(), np.zeros(len(steps))
    for each in plan.operations:
        gamma = steps / (1.0 + steps * each.damp)
        if each.kind == THRESHOLD:
            T += gamma * each.weight
        else:
            factor = 1.0 / (1.0 + gamma * each.weight)
            C, T = C * factor, T * factor
    if not np.all((C > LEAST) & (T < MOST) & np.isfinite(steps / keep)):
        return False
    shrinking = Shrinking(steps / keep, clear, C, T)
    threshold_epoch(problem, touched_of(objective, problem), order, shrinking, mu, averaged, w, sums)
    return True


def _scale_groups(
    plan: Plan,
    objective: Any,
    problem: Any,
    x: np.ndarray,
    rounds: Rounds,
    mu: float,
    averaged: bool,
    w: Weights,
    sums: Weights,
) -> bool:
    steps = rounds.steps
    p, model, largest = plan.proxes.member.shape[1], objective.model, np.max(np.abs(x), initial=0.0)
    scaled = x / largest if largest > 0 else x
    norms = largest * np.sqrt(np.bincount(plan.label, weights=scaled * scaled, minlength=p))
    used = np.bincount(plan.label[x != 0], minlength=p) > 0
    if np.any(used & ~((norms > LEAST) & (norms < MOST))) or not np.all((steps > LEAST) & (steps < MOST)):
        return False
    of, of_A = (_numbers(part, p - 1) for part in model.padded(plan.label + 1.0))
    L, restricted = model.n_labels, getattr(model, "restricted", False)
    if not restricted and np.all(of[:, :1] == of[:, :L]):
        of = np.ascontiguousarray(of[:, :1])
    parted = Parted(norms, of, of_A[0])
    return group_epoch(problem, touched_of(objective, problem), rounds, plan.proxes, parted, mu, averaged, w, sums)


def _numbers(padded: np.ndarray, free: int) -> np.ndarray:
    """The part of each padded weight, from part numbers + 1 in the same layout; padding is in no group."""
    return np.where(np.isfinite(padded) & (padded > 0), padded - 1, free).astype(np.int64)


_plans: Kept[tuple[Any, Plan | None]] = Kept()  # of an objective, with its regularizer


def _plan(objective: Any, proxes: Any, d: int) -> Plan | None:
    """The operations for this regularizer, stored with the objective for later epochs; None: there is no kernel."""
    kept = _plans.get(objective)
    if kept is None or kept[0] is not proxes:
        kept = _plans.put(objective, (proxes, _planned(proxes, d)))
    return kept[1]


def _planned(proxes: Any, d: int) -> Plan | None:
    try:
        operations = tuple(_operations(proxes))
    except CannotWait:  # then the reference's loop runs
        return None
    if any(not (each.weight == 0 or LEAST < each.weight < MOST) for each in operations):
        return None
    grouped = [each for each in operations if each.kind not in (THRESHOLD, RIDGE)]
    if not grouped:
        return Plan(operations, np.zeros(0, np.int64))
    if len(operations) > sum(each.kind != THRESHOLD for each in operations):
        return None
    if any(
        each.groups is not None and (each.groups.width > d or (each.groups.exact and each.groups.width != d))
        for each in grouped
    ):
        return None  # the reference raises the error
    return _of_groups(operations, d)


def _of_groups(operations: tuple[Operation, ...], d: int) -> Plan:
    """The plan over disjoint parts, of which all groups are unions."""
    labels = [each.groups.label(d) for each in operations if each.groups is not None]
    counts = [len(each.groups) for each in operations if each.groups is not None]
    distinct = [k for k in range(len(labels)) if not any(np.array_equal(labels[k], labels[j]) for j in range(k))]
    if len(distinct) == 1:
        label, members = labels[distinct[0]], np.arange(counts[distinct[0]])[None]
    elif distinct:
        rows = np.stack([np.where(labels[k] < counts[k], labels[k], -1) for k in distinct])
        members, label = np.unique(rows, axis=1, return_inverse=True)
        free = np.all(members == -1, axis=0)
        number = np.where(free, np.sum(~free), np.cumsum(~free) - 1)
        label, members = number[label.reshape(-1)], members[:, ~free]
    else:
        label, members = np.zeros(d, np.int64), np.zeros((1, 0), np.int64)
    p, most = members.shape[1] + 1, max([1, *counts])
    member, weights = np.full((len(operations), p), -1), np.ones((len(operations), most))
    count, alike = np.zeros(len(operations), np.int64), np.zeros(len(operations), np.bool_)
    for o, each in enumerate(operations):
        if each.groups is None:
            continue
        own = each.groups.label(d)
        row = next(place for place, k in enumerate(distinct) if np.array_equal(labels[k], own))
        member[o, :-1], count[o] = members[row], len(each.groups)
        alike[o] = np.array_equal(members[row], np.arange(count[o]))
        if each.weights is not None:
            weights[o, : count[o]] = each.weights
    kind = np.array([each.kind for each in operations])
    weight, damp, power = np.array(
        [[each.weight, each.damp, each.power] for each in operations], dtype=np.float64
    ).T.copy()
    return Plan(operations, label, Proxes(kind, weight, damp, power, member, count, alike, weights))


def _operations(part: Any, damp: float = 0.0) -> Iterator[Operation]:
    """The proxes of a built-in regularizer, in order, at steps gamma / (1 + gamma damp). Raises CannotWait for a prox
    that cannot be applied later.
    """
    kind = _OURS.get(type(part))
    if kind in (reference.prox.Sequential, reference.prox.SparseGroupLasso, reference.prox.TreeGroupLasso):
        for each in part.parts:
            yield from _operations(each, damp)
    elif kind in (reference.prox.ElasticNet, reference.prox.ElasticNetMKL):
        yield Operation(RIDGE, part.sigma, damp)
        yield from _operations(part.part, damp + part.sigma)
    elif kind is reference.prox.L1:
        yield Operation(THRESHOLD, part.tau, damp)
    elif kind is reference.prox.HalfSquaredL2:
        yield Operation(RIDGE, part.lam, damp)
    elif kind is reference.prox.L21:
        yield Operation(SUM, part.tau, damp, groups=part.groups, weights=part.weights)
    elif kind is reference.prox.SquaredL21:
        yield Operation(SQUARE, part.lam, damp, groups=part.groups)
    elif kind is reference.prox.NonSparseMKL and part.q > 1:
        yield Operation(POWER, part.lam, damp, part.q, part.groups)
    elif kind is reference.prox.NonSparseMKL:
        yield Operation(SUM, 0.5 * part.lam, damp, groups=part.groups)
    elif kind is reference.prox.L21Ball:
        yield Operation(SUM_BALL, part.radius, damp, groups=part.groups)
    elif kind is reference.prox.L2Ball:
        yield Operation(BALL, part.radius, damp)
    else:
        raise CannotWait


_OURS = {
    getattr(panel, name): getattr(reference.prox, name)
    for panel in (reference.prox, prox)
    for name in reference.prox.__all__
    if name in prox.__all__
}
