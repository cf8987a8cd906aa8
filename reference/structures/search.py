"""The k best outputs by best-first branch and bound, over any space with a bound and a split.

Sets of outputs wait in a queue, the one of the highest bound first: a single output is a best one of what is left, any
other set is split. Source: Pillutla et al., Algorithm 13 (*corrected*) and Proposition 15; Lampert et al. (2008) for
boxes.
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
    """Outputs that a search can part: a set of them is any object of yours, None the empty set."""

    def everything(self) -> Any:
        """The set of all outputs."""

    def bound(self, outputs: Any) -> float:
        """At least the score of every output of the set; of a single output its score. -inf: all are forbidden."""

    def split(self, outputs: Any) -> Iterable[Any]:
        """Smaller disjoint sets that make up a set of several outputs; empty ones (None) may be among them."""

    def single(self, outputs: Any) -> Any:
        """The output of a set of one, None for a set of several."""


class Found(NamedTuple):
    """An output and its score."""

    score: float
    output: Any


def branch_and_bound(space: SearchSpace, k: int = 1, *, tolerance: float = 0.0) -> list[Found]:
    """The k best outputs of a space, from high to low.

    Parameters
    ----------
    space : SearchSpace
        What answers ``everything``, ``bound``, ``split`` and ``single``.
    k : int >= 1
    tolerance : float >= 0
        By how much a score may exceed a bound, by rounding.

    Returns
    -------
    list of Found
        k different outputs, or all that are not forbidden where there are fewer.

    Raises
    ------
    ValueError
        An output whose score is above the bound of a set that it came from: the bound is none. A bound of nan or +inf.

    Notes
    -----
    Exact for any bound; a bad one makes it visit every output. Ties: a single output comes before sets of the same
    bound, the first to be found before later ones; of sets, the latest. That reaches an output soon, and among equal
    scores prefers none.

    Source
    ------
    Pillutla et al., Algorithm 13, *corrected*: it ends when the queue is empty, and empty splits are left out.
    Proposition 15.

    Examples
    --------
    >>> from reference import branch_and_bound
    >>> class Numbers:  # the integers a..b-1 by the score 9 - (x - 3)^2
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
    >>> [(found.output, found.score) for found in branch_and_bound(Numbers(), 1)]
    [(3, 9.0)]
    """
    k, tolerance = positive_k(k), number("tolerance", tolerance)
    queue: list[
        tuple[float, int, Any, float]
    ] = []  # minus the bound, order among equals, the set, the least bound above it
    met = 0

    def wait(outputs: Any, least: float) -> None:
        nonlocal met
        if outputs is None:
            return
        bound, alone = float(space.bound(outputs)), space.single(outputs) is not None
        if math.isnan(bound) or bound == math.inf:
            raise ValueError(
                f"bound: expected a finite number, or -inf where all is forbidden, got {bound} for {outputs!r}"
            )
        if alone and bound > least + tolerance:
            raise ValueError(
                f"bound: the output {space.single(outputs)!r} has score {bound}, but a set that it is in has the "
                f"bound {least}: "
                "that is no upper bound"
            )
        if bound > -math.inf:
            met += 1
            least = min(least, bound)
            heapq.heappush(queue, (-bound, met, outputs, least) if alone else (-least, _AFTER - met, outputs, least))

    wait(space.everything(), math.inf)
    found: list[Found] = []
    while len(found) < k and queue:
        negative, _, outputs, least = heapq.heappop(queue)
        y = space.single(outputs)
        if y is not None:
            found.append(Found(-negative, y))
        else:
            for part in space.split(outputs):
                wait(part, least)
    return found


_AFTER = 2**62  # numbers of single outputs lie below those of sets
