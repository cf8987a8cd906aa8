"""Numbers from a seed, the same on every machine, and the natures of the scores that are made of them.

Of Python's generator only ``random()`` is used: its sequence is the one that Python promises to keep. All scores are
integers times a power of two, or multiples of 0.1 as floats have them.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from conformance.export.numbers import Array

__all__ = ["NATURES", "Draws", "Nature"]

TINY, HUGE = 2.0**-1000, 2.0**990  # 9.3e-302 and 1.0e298


class Draws:
    """Integers from a key: the numbers of an instance depend only on its key."""

    def __init__(self, *key: object) -> None:
        digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
        self._random = random.Random(int.from_bytes(digest, "big"))

    def between(self, least: int, most: int) -> int:
        """An integer in least..most."""
        return least + int(self._random.random() * (most - least + 1))

    def choice(self, among: Sequence[Any]) -> Any:
        """One of several."""
        return among[self.between(0, len(among) - 1)]

    def chance(self, one_in: int) -> bool:
        """True with probability 1/one_in."""
        return self.between(1, one_in) == 1


class Nature(NamedTuple):
    """The distribution of scores. exact_sums: every sum of them, in any order, is a float64. mus: temperatures of
    sums.
    """

    what: str
    score: Callable[[Draws], float]
    mus: tuple[float, ...] = (1.0, 0.25)
    exact_sums: bool = True
    forbidden: int = 0  # one score in this number is -inf, but not every output; 1: all scores are
    size: str = "few"  # or "one", or "none": as small as the structure allows

    def scores(self, draws: Draws, *shape: int) -> Array:
        """An array of scores."""
        values = []
        for _ in range(math.prod(shape)):
            value = self.score(draws)
            values.append(-math.inf if self.forbidden and draws.chance(self.forbidden) else value)
        return Array(shape, values)

    def sizes(self, draws: Draws, most: int, least: int = 1) -> int:
        """How many positions, nodes or rows."""
        return {"few": draws.between(max(least, 2), most), "one": max(least, 1), "none": least}[self.size]


def _integers(most: int, scale: float = 1.0) -> Callable[[Draws], float]:
    return lambda draws: draws.between(-most, most) * scale


NATURES = (
    Nature("small integers: whole outputs tie", _integers(2)),
    Nature("quarters", _integers(20, 0.25), mus=(1.0, 8.0)),
    Nature("zeros of both signs: all outputs tie", lambda draws: draws.choice((0.0, -0.0))),
    Nature("some scores are -inf: these parts are forbidden", _integers(4), forbidden=4),
    Nature("0 or -inf: the log-partition is mu times the log of the count", lambda draws: 0.0, forbidden=3),
    Nature("every output is forbidden", _integers(2), forbidden=1),
    Nature("one variable: k may exceed the number of outputs", _integers(3), size="one"),
    Nature("the smallest size there is", _integers(3), size="none"),
    Nature("hundreds apart: probabilities beyond the range of floats", _integers(9, 100.0), mus=(1.0, 64.0)),
    Nature("tiny: integers times 2^-1000", _integers(5, TINY), mus=(TINY, 8.0 * TINY)),
    Nature("huge: integers times 2^990", _integers(5, HUGE), mus=(HUGE, 0.25 * HUGE)),
    Nature("multiples of 0.1: near ties, floats differ by the order of sums", lambda draws: draws.between(-9, 9) / 10,
           mus=(1.0, 0.1), exact_sums=False),
    Nature("scales mixed: integers times 2^-60, 1 or 2^60",
           lambda draws: draws.between(-3, 3) * draws.choice((2.0**-60, 1.0, 2.0**60)), mus=(), exact_sums=False),
)  # fmt: skip
