"""Safe screening rules: they find weights that are 0 at the optimum before the optimum is known.

At the optimum w_j = 0 wherever |G_j(theta*)| <= beta (with alpha = 0: < beta). A rule has a set that contains theta*,
and bounds |G_j| on that set:

    rule           theta* lies in                                        largest |G_j(theta)|
    L1GapRule      sum_i ||theta_i - theta*_i||_1^2 <= 2 n gap (Pinsker) |G_j| + sqrt(2 n gap) range_j / n
    L2GapRule      ||theta - theta*||^2 <= n gap                         |G_j| + sqrt(n gap) centred_j / n
    CountRule      all distributions                                     max(most_j - gold_j, gold_j - least_j) / n
    HalfSpaceRule  ||theta - a0|| <= r, and sum of block k <= 1          problem (4) of the paper
    UnionRule      the intersection of its rules' sets                   the least of its rules' bounds

Floating point. The error of G_j is assumed to be at most delta_j = 4096 eps (beta + |G_j| + range_j / sqrt(n)), eps the
machine epsilon of its dtype. Bounds are raised by delta_j. Radii are raised by the effect of such an error: the root of
the gap by at least ||delta|| / sqrt(2 alpha beta). The error of CountRule's sums is assumed to be at most 4096 eps
(beta + (|least_j| + |most_j|) / n). This slack is never 0, so no rule removes a weight with |G_j(theta*)| = beta.

Source: Zhang and Qiu, section 2, rule (R'). The rules by the gap are not in the paper; its own rule is in
:mod:`reference.screening.half_space`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from reference.screening.problem import ROUNDING, State
from reference.structures.base import UnsupportedError

REGISTRY = "reference.screening.registry, where register(type, bounds) adds bounds for a type of models"

__all__ = ["CountRule", "L1GapRule", "L2GapRule", "Rule", "UnionRule"]


class Rule(Protocol):
    """The interface of a rule: it finds weights that are 0 at the optimum of the state's problem."""

    def screen(self, state: State) -> np.ndarray:
        """True (d,) only where the optimal weight is 0."""
        ...


class ByBounds:
    """A rule that screens a weight if an upper bound on |G_j(theta*)| is at most beta."""

    def screen(self, state: State) -> np.ndarray:
        """True (d,) where the rule proves that the optimal weight is 0."""
        return self.bounds(state) <= state.problem.beta

    def bounds(self, state: State) -> np.ndarray:
        """Upper bounds (d,)."""
        raise NotImplementedError


@dataclass(frozen=True)
class L1GapRule(ByBounds):
    """Screen by the duality gap and the features' ranges; outputs need not be listed.

    |G_j| + sqrt(2 n gap) sqrt(sum_i R_ij^2) / n <= beta  implies  w*_j = 0,
    R_ij = (max_y phi_ij(y) - min_y phi_ij(y)) / 2

    Raises
    ------
    UnsupportedError
        From ``screen``: a model without bounds on the ranges of its features.

    Notes
    -----
    O(d) besides the gradient. -H is 1-strongly convex in l1 on the simplex (Pinsker). Differences of distributions sum
    to 0, and Cauchy-Schwarz combines the examples. Any upper bound in place of R_ij is safe.
    """

    def bounds(self, state: State) -> np.ndarray:
        """The largest |G_j(theta)| (d,) over the set that holds theta*."""
        return _by_gap(state, np.sqrt(2.0 * state.problem.n), _range(state))


@dataclass(frozen=True)
class L2GapRule(ByBounds):
    """Screen by a ball around theta with a radius from the duality gap; listed outputs only.

    |G_j| + sqrt(n gap) sqrt(sum_i sum_y (phi_ij(y) - mean_y phi_ij)^2) / n <= beta  implies  w*_j = 0

    Raises
    ------
    UnsupportedError
        From ``screen``: a model whose outputs are not listed.

    Notes
    -----
    O(d) besides the gradient. -H is 2-strongly convex in l2 on the simplex. Never better than :class:`L1GapRule`.
    """

    def bounds(self, state: State) -> np.ndarray:
        """The largest |G_j(theta)| (d,) over the set that holds theta*."""
        return _by_gap(state, np.sqrt(float(state.problem.n)), listed_spread(state).centred)


@dataclass(frozen=True)
class CountRule(ByBounds):
    """Screen features that are too rare for any weights to make |G_j| larger than beta, before any training.

    max(most_j - gold_j, gold_j - least_j) / n <= beta  implies  w*_j = 0

    with gold_j = sum_i phi_ij(y_i), least_j = sum_i min_y phi_ij(y) and most_j = sum_i max_y phi_ij(y), or bounds on
    these two that are registered for the model.

    Raises
    ------
    UnsupportedError
        From ``screen``: a model without bounds on the sums of its features.

    Notes
    -----
    One pass over the data for a whole path, then O(d). For an indicator, most_j - gold_j counts how often it could be 1
    but is 0 in the true output, gold_j - least_j how often it is 1 but could be 0.

    Examples
    --------
    >>> from reference import CountRule, ElasticNetCRF, LogLoss, MulticlassModel
    >>> model = MulticlassModel(n_features=2, labels=["a", "b"])
    >>> data = model.pack([[0], [0], [0, 1], [0]], ["a", "a", "b", "b"])  # feature 1 is active once in four examples
    >>> state = ElasticNetCRF(LogLoss(model, data), alpha=1.0, beta=0.3).evaluate([0.0] * 4)
    >>> [bool(x) for x in CountRule().screen(state)]
    [False, False, True, True]
    """

    def bounds(self, state: State) -> np.ndarray:
        """The largest |G_j(theta)| (d,) over all theta."""
        problem = state.problem
        farthest = problem.features.farthest
        if farthest is None:
            name = type(problem.objective.model).__name__
            raise UnsupportedError(
                f"CountRule: {name} does not bound the sums of its features: it has no feature_totals in {REGISTRY}"
            )
        return farthest / problem.n + ROUNDING * problem.eps * problem.beta


@dataclass(frozen=True, init=False)
class UnionRule:
    """Screen the weights that any of several rules screens.

    Parameters
    ----------
    *rules : rules
    """

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        for rule in rules:
            check_rule(rule)
        object.__setattr__(self, "rules", rules)

    def screen(self, state: State) -> np.ndarray:
        """True (d,) where a rule proves that the optimal weight is 0."""
        screened = np.zeros(state.problem.size, dtype=bool)
        for rule in self.rules:
            screened |= rule.screen(state)
        return screened


def check_rule(rule: Any) -> None:
    """Raise TypeError unless the argument is a rule."""
    if isinstance(rule, type) or not callable(getattr(rule, "screen", None)):
        raise TypeError(f"rule: expected an object with screen(state), such as L1GapRule(), got {rule!r}")


def _range(state: State) -> np.ndarray:
    result = state.problem.features.range
    if result is None:
        name = type(state.problem.objective.model).__name__
        raise UnsupportedError(
            f"L1GapRule: {name} does not bound the ranges of its features: it has no feature_range in {REGISTRY}"
        )
    return result


def listed_spread(state: State) -> Any:
    """The spread of the model's features over listed outputs; UnsupportedError if outputs are not listed."""
    result = state.problem.features.spread
    if result is None:
        raise UnsupportedError(
            f"rule: the outputs of {type(state.problem.objective.model).__name__} are not listed; use L1GapRule()"
        )
    return result


def _by_gap(state: State, factor: float, spread: np.ndarray) -> np.ndarray:
    """|G_j| + factor sqrt(gap) spread_j / n (d,), with the slack for floating point.

    The slack is that of :func:`rounding`, written out to pass over the d numbers fewer times.
    """
    problem, unit, span = state.problem, ROUNDING * state.problem.eps, state.problem.features.range
    per_span = 0.0 if span is None else unit / np.sqrt(problem.n)
    if problem.alpha > 0:
        largest = unit * (float(np.linalg.norm(state.gradient)) + problem.beta * np.sqrt(problem.size))  # >= ||delta||
        largest += 0.0 if span is None else per_span * float(np.linalg.norm(span))
        root = np.sqrt(state.gap) + largest / np.sqrt(2 * problem.alpha * problem.beta)
    else:
        root = np.sqrt(state.gap + unit * state.fun)
    bound: np.ndarray = np.abs(state.gradient)
    bound *= state.s + unit
    bound += unit * problem.beta
    if span is spread:
        bound += (factor * root / problem.n + per_span) * spread
    else:
        bound += (factor * root / problem.n) * spread
        bound += 0.0 if span is None else per_span * span
    return bound


def rounding(state: State) -> np.ndarray:
    """delta (d,): the assumed bound on the gradient's rounding error."""
    problem = state.problem
    result = problem.features.range
    delta: np.ndarray = np.abs(state.gradient)
    if result is not None:
        delta += result / np.sqrt(problem.n)
    delta += problem.beta
    delta *= ROUNDING * problem.eps
    return delta
