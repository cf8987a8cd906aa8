"""The k best outputs by best-first branch and bound, over any space with a bound and a split.

A priority queue holds disjoint sets of outputs, the highest bound first. If the first set is a single output, this
output is the next best one; any other set is split. Source: Pillutla et al., Algorithm 13 (*corrected*) and
Proposition 15; Lampert et al. (2008) for boxes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from reference.arrays import number
from reference.structures.base import positive_k

__all__ = ["Found", "SearchSpace", "branch_and_bound"]


class SearchSpace(Protocol):
    """A space of outputs to search. A set of outputs is any object that represents it; None is the empty set."""

    def everything(self) -> Any:
        """The set of all outputs."""

    def bound(self, outputs: Any) -> float:
        """An upper bound on the scores of the set; for a single output its score. -inf: every output is forbidden."""

    def split(self, outputs: Any) -> Iterable[Any]:
        """Smaller disjoint sets whose union is this set of several outputs; some may be empty (None)."""

    def single(self, outputs: Any) -> Any:
        """The output of a set of one, None for a set of several outputs."""


class Found(NamedTuple):
    """An output and its score."""

    score: float
    output: Any


def branch_and_bound(space: SearchSpace, k: int = 1, *, tolerance: float = 0.0) -> list[Found]:
    """The k best outputs of a space, from high to low score.

    Parameters
    ----------
    space : SearchSpace
        An object with the methods ``everything``, ``bound``, ``split`` and ``single``.
    k : int >= 1
    tolerance : float >= 0
        The largest excess of a score over a bound that counts as rounding.

    Returns
    -------
    list of Found
        k different outputs, or all possible outputs if there are fewer.

    Raises
    ------
    ValueError
        The score of an output exceeds the bound of a set that contains it, or a bound is nan or +inf.

    Notes
    -----
    Exact for any upper bound; with a loose bound the search may visit every output. Ties: among equal bounds, single
    outputs come before sets, the earliest single output first and the latest set first. An output is thus reached
    early. Which of several outputs of equal score comes first depends on the splits.

    Source
    ------
    Pillutla et al., Proposition 15 and Algorithm 13, *corrected*: the search ends when the queue is empty, and empty
    splits are left out.

    Examples
    --------
    >>> from reference import branch_and_bound
    >>> class Numbers:  # sets (a, b) are the integers a..b-1; the score of x is 9 - (x - 3)^2
    ...     def everything(self):
    ...         return (0, 100)
    ...     def bound(self, pair):
    ...         nearest = min(max(3, pair[0]), pair[1] - 1)
    ...         return 9.0 - (nearest - 3) ** 2
    ...     def split(self, pair):
    ...         middle = (pair[0] + pair[1]) // 2
    ...         return (pair[0], middle), (middle, pair[1])
    ...     def single(self, pair):
    ...         return pair[0] if pair[1] == pair[0] + 1 else None
    >>> [(result.output, result.score) for result in branch_and_bound(Numbers(), 1)]
    [(3, 9.0)]
    """
    k, tolerance = positive_k(k), number("tolerance", tolerance)
    # minus the bound, rank among equal bounds, the set, the least bound of the sets that contain it
    queue: list[tuple[float, int, Any, float]] = []
    n_sets = 0

    def push(outputs: Any, least: float) -> None:
        nonlocal n_sets
        if outputs is None:
            return
        bound, is_single = float(space.bound(outputs)), space.single(outputs) is not None
        if math.isnan(bound) or bound == math.inf:
            raise ValueError(
                f"bound: expected a finite number, or -inf where all is forbidden, got {bound} for {outputs!r}"
            )
        if is_single and bound > least + tolerance:
            raise ValueError(
                f"bound: expected an upper bound, got {least} for a set with the output {space.single(outputs)!r} of "
                f"score {bound}"
            )
        if bound > -math.inf:
            n_sets += 1
            least = min(least, bound)
            entry = (-bound, n_sets, outputs, least) if is_single else (-least, _AFTER - n_sets, outputs, least)
            heapq.heappush(queue, entry)

    push(space.everything(), math.inf)
    results: list[Found] = []
    while len(results) < k and queue:
        negative, _, outputs, least = heapq.heappop(queue)
        y = space.single(outputs)
        if y is not None:
            results.append(Found(-negative, y))
        else:
            for part in space.split(outputs):
                push(part, least)
    return results


_AFTER = 2**62  # ranks of single outputs lie below those of sets
