"""Sums of regularizers whose proxes are taken one after another, as the online proximal algorithm does.

Applied in order, the proxes of R_1, ..., R_J are a prox of their sum if the R_j are norms of groups that form a tree
and inner groups come first: l1 (groups of one coordinate) before the groups that hold them. In other orders, or for
groups that cross, the result is not the prox of the sum, but the algorithm's regret bound still holds.

Source: Martins et al. 2010, Algorithm 1 and section 3.2 ("other variants"); Jenatton et al. 2011 for the trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reference.arrays import Array
from reference.prox.arguments import Point, number, slack
from reference.prox.base import Regularizer, checked_regularizer, indicator, largest
from reference.prox.grouped import L21
from reference.prox.groups import Groups, by_lists
from reference.prox.norms import L1, nonnegative_weights

__all__ = ["Sequential", "SparseGroupLasso", "TreeGroupLasso"]

PRINTED = 3  # the most parts that a repr lists; of more it prints the number


@dataclass(frozen=True, eq=False)
class Sequential(Regularizer):
    """R_1(x) + ... + R_J(x), with the proxes of the parts applied in order.

    ``prox`` is that sequence for any parts. It is the prox of the sum, and ``exact`` is True, if the parts are norms
    (``L1``, ``L21``, and trees of them) whose groups never cross, with inner groups before outer ones; then the
    conjugate is the indicator of {y : prox(y) = 0}, as the sum is a norm. With only one part, every method is that of
    the part.

    Parameters
    ----------
    parts : sequence of Regularizer

    Raises
    ------
    TypeError
        A part is not a regularizer.
    ValueError
        No parts. The methods ``conjugate``, ``prox_conjugate`` and ``envelope`` of a sequence that is not exact; the
        message names the two groups that cross.

    Source
    ------
    Martins et al., Algorithm 1, lines 6 to 8.
    """

    parts: Sequence[Any]
    _obstacle: str | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.parts, Regularizer) or not isinstance(self.parts, Iterable):
            raise TypeError(f"parts: expected a sequence of regularizers, got {self.parts!r}")
        parts = (checked_regularizer(f"parts[{i}]", part) for i, part in enumerate(self.parts))
        object.__setattr__(self, "parts", tuple(parts))
        if not self.parts:
            raise ValueError("parts: expected at least one regularizer, got none")
        object.__setattr__(self, "_obstacle", _obstacle(self.parts))

    @property
    def exact(self) -> bool:
        """Whether ``prox`` is the prox of the sum."""
        return self._obstacle is None

    @property
    def levels(self) -> tuple[Groups | None, ...]:
        """The groups of each part in order; None stands for all single coordinates."""
        return tuple(level for part in self.parts for level in part.levels)

    def envelope(self, x: Array, step_size: float = 1.0) -> Array:
        self._needs_exact("envelope")
        return super().envelope(x, step_size)

    def _value(self, point: Point) -> Array:
        total = self.parts[0].value(point.x)
        for part in self.parts[1:]:
            total = total + part.value(point.x)
        return total

    def _prox(self, point: Point, step_size: float) -> Array:
        x = point.x
        for part in self.parts:
            x = part.prox(x, step_size)
        return x

    def _conjugate(self, point: Point) -> Array:
        self._needs_exact("conjugate")
        if len(self.parts) == 1:
            return self.parts[0].conjugate(point.x)
        xp, y, _ = point
        return indicator(xp, largest(xp, self.prox(y)) <= slack(point) * largest(xp, y))

    def _prox_conjugate(self, point: Point, step_size: float) -> Array:
        self._needs_exact("prox_conjugate")
        if len(self.parts) == 1:
            return self.parts[0].prox_conjugate(point.x, step_size)
        return point.x - self.prox(point.x)  # the projection onto the dual ball

    def __repr__(self) -> str:
        parts = repr(self.parts) if len(self.parts) <= PRINTED else f"<{len(self.parts)} regularizers>"
        return f"{type(self).__name__}(parts={parts})"

    def _needs_exact(self, what: str) -> None:
        if not self.exact:
            raise ValueError(f"{what}: the sequence of proxes is not the prox of the sum: {self._obstacle}")


def as_regularizer(regularizer: Any) -> Regularizer:
    """The regularizer itself, or the :class:`Sequential` of a sequence; TypeError if it is neither."""
    return regularizer if isinstance(regularizer, Regularizer) else Sequential(regularizer)


class SparseGroupLasso(Sequential):
    """tau ||x||_1 + group_tau sum_k ||x_k||, sparse between groups and within them.

    prox: soft(x, s tau), then the group lasso's. conjugate: 0 if ||soft(y_k, tau)|| <= group_tau for all k (and
    |y| <= tau outside the groups), else inf.

    Parameters
    ----------
    tau : float >= 0
    groups : sequence of index arrays, or integer array (p,) of group numbers (-1: none)
        Disjoint; a coordinate in no group has only the l1 term.
    group_tau : float >= 0

    Source
    ------
    Martins et al., section 3.2 ("other variants"), which leaves the order of the two proxes open: l1 comes first.
    """

    inner_type: type[L1] = L1  # the accelerated panel replaces it

    def __init__(self, tau: float, groups: Any, group_tau: float) -> None:
        super().__init__((self.inner_type(tau), L21(number("group_tau", group_tau), groups)))

    def _conjugate(self, point: Point) -> Array:
        l1, l21 = self.parts
        rest = point._replace(x=l1.prox(point.x))
        slackened = l21.tau + slack(point) * largest(point.xp, point.x)
        free = largest(point.xp, l21.groups.free(rest))
        norms = largest(point.xp, l21.groups.norms(rest))
        return indicator(point.xp, (norms <= slackened) & (free <= slack(point) * largest(point.xp, point.x)))


class TreeGroupLasso(Sequential):
    """sum_g w_g ||x_g|| over groups of which any two are nested or disjoint.

    prox: the group soft thresholds, inner groups first. conjugate: 0 if prox(y) = 0, else inf (the sum is a norm, and
    y is in its dual ball iff the prox at y is 0).

    Parameters
    ----------
    groups : sequence of index arrays
        Any two nested, equal or disjoint; a coordinate in no group is free.
    weights : array (K,), optional
        w, finite and >= 0; default 1.

    Raises
    ------
    ValueError
        Two groups cross.

    Source
    ------
    Martins et al., section 3.2 ("hierarchical lasso"); Jenatton et al. 2011.

    Examples
    --------
    >>> TreeGroupLasso([[0, 1], [1]]).prox([2.0, 1.0]).tolist()
    [1.0, 0.0]
    """

    def __init__(self, groups: Any, weights: Any = None) -> None:
        members = by_lists(groups)
        weights = nonnegative_weights(np.ones(len(members)) if weights is None else weights)
        if len(weights) != len(members):
            raise ValueError(f"weights: expected {len(members)} numbers, one a group, got {len(weights)}")
        height = _heights(members)
        levels = [np.flatnonzero(height == h) for h in range(max(height, default=0) + 1)]
        super().__init__([L21(1.0, [members[k] for k in level], weights=weights[level]) for level in levels])


def _heights(members: Sequence[np.ndarray]) -> np.ndarray:
    """The height of each group in the tree of groups. Raises ValueError if two groups cross."""
    p = max((int(group.max(initial=-1)) for group in members), default=-1) + 1
    outermost, height = np.full(p, -1), np.zeros(len(members), dtype=np.int64)  # the last group so far at a coordinate
    for k in sorted(range(len(members)), key=lambda k: len(members[k])):
        group = members[k]
        if len(np.unique(group)) != len(group):
            raise ValueError(f"groups: expected different coordinates in a group, got {group} as group {k}")
        inside, count = np.unique(outermost[group], return_counts=True)
        for other, common in zip(inside, count, strict=True):
            if other >= 0 and common != len(members[other]):
                raise ValueError(f"groups: expected nested or disjoint groups, but groups {other} and {k} cross")
            if other >= 0:
                height[k] = max(height[k], height[other] + 1)
        outermost[group] = k
    return height


def _obstacle(parts: Sequence[Any]) -> str | None:
    """Why the sequence of proxes is not the prox of the sum, in words; None if it is."""
    if len(parts) == 1:
        return None
    for j, part in enumerate(parts):
        if not hasattr(part, "levels") or not getattr(part, "exact", True):
            return f"part {j} ({type(part).__name__}) is not a norm of groups that form a tree"
    levels = [(j, level) for j, part in enumerate(parts) for level in part.levels]
    for place, (i, inner) in enumerate(levels):
        for j, outer in levels[place + 1 :]:
            crossing = None if inner is None else _crossing(inner, outer)
            if crossing is not None:
                k, other = crossing
                return (
                    f"group {k} of part {i} ({type(parts[i]).__name__}) is neither inside nor outside {other} of "
                    f"part {j} ({type(parts[j]).__name__}): groups must not cross, and inner ones come first"
                )
    return None


def _crossing(inner: Groups, outer: Groups | None) -> tuple[int, str] | None:
    """A group that crosses one of the outer groups, and that outer group."""
    if outer is None:
        return next(((k, f"coordinate {group[0]}") for k, group in enumerate(inner.members) if len(group) > 1), None)
    label = outer.label(max(inner.width, outer.width))
    for k, group in enumerate(inner.members):
        touched = np.unique(label[group])
        if len(touched) > 1:
            return k, f"group {touched[0]}"
    return None
