"""Groups of coordinates: the l2 norms of all groups at once, and scaling each group by a factor.

Proposition 1 of Martins et al. reduces the prox of a function of group norms to the prox of a function of K numbers, by
these two operations. Groups are on the host, because they decide shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from reference.arrays import Array, host, unmasked
from reference.prox.arguments import Point
from reference.prox.base import l2

__all__ = ["Groups"]

MOST = 2**31  # the largest coordinate or group number; a larger one is a mistake, and would need much memory


class Groups:
    """K disjoint groups of coordinates; a coordinate may be in none of them.

    Parameters
    ----------
    groups : sequence of index sequences, or integer array (p,)
        The coordinates of each group; or each coordinate's group number, from 0, with -1 for none.

    Attributes
    ----------
    members : tuple of int64 arrays
        The coordinates of each group, on the host.
    width : int
        The smallest p that has all coordinates of the groups.
    exact : bool
        Whether the groups were given as an array (p,): x must then have p coordinates.
    """

    def __init__(self, groups: Any) -> None:
        groups = unmasked("groups", groups)
        self.exact = is_array_api_obj(groups) and groups.ndim == 1
        self.members = _by_number(groups) if self.exact else by_lists(groups)
        flat = np.concatenate([np.zeros(0, np.int64), *self.members])
        self.width = groups.shape[0] if self.exact else int(flat.max(initial=-1)) + 1
        if np.bincount(flat, minlength=1).max() > 1:
            twice = np.flatnonzero(np.bincount(flat) > 1)[0]
            among = [k for k, group in enumerate(self.members) if twice in group]
            raise ValueError(
                f"groups: expected disjoint groups, got coordinate {twice} in group {among[0]} and in group {among[-1]}"
            )
        self._label = np.full(self.width, len(self))
        self._label[flat] = np.repeat(np.arange(len(self)), [len(group) for group in self.members])
        self._blocks, self._back = _blocks(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return f"<{len(self)} groups of {sum(len(group) for group in self.members)} coordinates>"

    def label(self, p: int) -> np.ndarray:
        """The group of each of p >= width coordinates (p,) int64; K for none."""
        return np.concatenate([self._label, np.full(p - self.width, len(self))])

    def norms(self, point: Point) -> Array:
        """||x_k|| (..., K); 0 for an empty group."""
        xp, x, _ = point
        *batch, p = x.shape
        self._check(p)
        padded = xp.concat([x, point.send(np.zeros((*batch, 1)))], axis=-1)
        parts = [point.send(np.zeros((*batch, 0)))]
        for index in self._blocks:
            part = xp.take(padded, point.send(np.where(index < 0, p, index).reshape(-1)), axis=-1)
            parts.append(l2(xp, xp.reshape(part, (*batch, *index.shape))))
        return xp.take(xp.concat(parts, axis=-1), point.send(self._back), axis=-1)

    def scale(self, point: Point, factors: Array) -> Array:
        """x with group k multiplied by factors[..., k] (..., K); coordinates in no group stay."""
        xp, x, _ = point
        self._check(x.shape[-1])
        ones = point.send(np.ones((*x.shape[:-1], 1)))
        factors = xp.concat([factors, ones], axis=-1)
        return x * xp.take(factors, point.send(self.label(x.shape[-1])), axis=-1)

    def free(self, point: Point) -> Array:
        """The coordinates in no group (..., m)."""
        self._check(point.x.shape[-1])
        index = np.flatnonzero(self.label(point.x.shape[-1]) == len(self))
        return point.xp.take(point.x, point.send(index), axis=-1)

    def _check(self, p: int) -> None:
        if p < self.width or (self.exact and p != self.width):
            expected = f"{self.width}" if self.exact else f"at least {self.width}"
            raise ValueError(f"x: expected {expected} coordinates along the last axis, as the groups have, got {p}")


def _blocks(members: tuple[np.ndarray, ...]) -> tuple[list[np.ndarray], np.ndarray]:
    """Index matrices (groups, size) of groups of similar size, padded by -1 to a power of two; and each group's row.

    The norms of all groups then cost at most twice the work, and one operation for each of the log p sizes.
    """
    sizes = np.array([len(group) for group in members], dtype=np.int64)
    padded = 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    blocks, order = [], [np.zeros(0, np.int64)]
    for size in np.unique(padded):
        which = np.flatnonzero(padded == size)
        block = np.full((len(which), size), -1)
        block[np.arange(size) < sizes[which, None]] = np.concatenate([members[k] for k in which])
        blocks.append(block)
        order.append(which)
    return blocks, np.argsort(np.concatenate(order))


def _by_number(groups: Any) -> tuple[np.ndarray, ...]:
    number = host(groups)
    if number.dtype.kind not in "iu":
        raise TypeError(f"groups: expected integer group numbers, got {number.dtype}")
    if number.size and number.min() < -1:
        raise ValueError(f"groups: expected group numbers >= 0, or -1 for none, got {number.min()}")
    if number.size and number.max() >= MOST:
        raise ValueError(f"groups: expected group numbers below 2^31, got {number.max()}")
    order = np.argsort(number, kind="stable").astype(np.int64)
    bounds = np.searchsorted(number[order], np.arange(int(number.max(initial=-1)) + 2))
    return tuple(order[a:b] for a, b in itertools.pairwise(bounds))


def by_lists(groups: Any) -> tuple[np.ndarray, ...]:
    """The coordinates of each group, in 0..MOST - 1, as int64. Raises TypeError, ValueError."""
    if not isinstance(groups, Sequence):
        raise TypeError(
            f"groups: expected a sequence of index arrays, or an integer array (p,), got {type(groups).__name__}"
        )
    members = []
    for k, group in enumerate(groups):
        try:
            index = host(group, f"groups: group {k}")
        except ValueError as problem:
            if isinstance(group, np.ma.MaskedArray):
                raise
            raise TypeError(f"groups: expected index arrays, got lists in a list as group {k}") from problem
        if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
            raise TypeError(
                f"groups: expected index arrays, got {index.dtype} of shape {index.shape} as group {k}; "
                "group numbers go in as one integer array"
            )
        if index.size and index.min() < 0:
            raise ValueError(f"groups: expected coordinates >= 0, got {index.min()} in group {k}")
        if index.size and index.max() >= MOST:
            raise ValueError(f"groups: expected coordinates below 2^31, got {index.max()} in group {k}")
        members.append(index.astype(np.int64))
    return tuple(members)
