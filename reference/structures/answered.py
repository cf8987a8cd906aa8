"""Structures whose ``best`` calls a user's function, such as a solver of another library.

The function takes the scores and returns the highest score and an output with this score, as ``best`` of the structure
does. The structure provides all other methods.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

import numpy as np

from reference.arrays import Array, Place, host, integers, real
from reference.structures.base import KBest, Structure, feasible
from reference.structures.scores import Scores, flatten, score_fields

__all__ = ["Oracle", "answered_by"]

Oracle = Callable[[Scores], tuple[Any, Any]]  # from scores to (value, output); value -inf if every output is forbidden

CLOSE = 1e-4  # tolerance between a value and the score of its output, relative to the sum of |scores|


def answered_by(kind: type[Structure], oracle: Oracle) -> type[Structure]:
    """The structure ``kind`` with ``oracle`` in place of ``best``; batches are not supported.

    Raises TypeError if ``oracle`` is not callable.
    """
    if not callable(oracle):
        raise TypeError(f"oracle: expected a callable, from scores to (value, output), got {oracle!r}")
    name = f"{kind.__name__}(oracle={getattr(oracle, '__name__', type(oracle).__name__)})"
    fields = {"__doc__": kind.__doc__, "kind": kind, "oracle": staticmethod(oracle)}
    return made_of(name, (_ByOracle, kind), fields, (answered_by, (kind, oracle)))


def made_of(name: str, bases: tuple[Any, ...], fields: dict[str, Any], recipe: tuple[Any, ...]) -> type[Any]:
    """A structure class built at run time from ``bases``; it is pickled by its recipe (function, arguments)."""
    return _Made(name, bases, {**fields, "__module__": bases[-1].__module__, "recipe": recipe})


class _Made(type):
    recipe: tuple[Any, ...]


copyreg.pickle(_Made, lambda made: made.recipe)


class _ByOracle(Structure):
    kind: type[Any]
    oracle: Oracle

    def best(self) -> tuple[Array, Array]:
        """The validated answer of the oracle, in the namespace, dtype and device of the scores.

        Raises InfeasibleError, ValueError, TypeError.
        """
        answer = self.oracle(self.scores)
        if not isinstance(answer, tuple) or len(answer) != 2:
            got = f"a tuple of {len(answer)}" if isinstance(answer, tuple) else type(answer).__name__
            raise TypeError(f"oracle: expected a pair (value, output), got {got}")
        place, number = Place.of(score_fields(self.scores)[0]), real("oracle: value", answer[0])
        value = feasible(place.floats(number), "best")
        try:
            y = integers("output", answer[1], place)
            self._refuse_other_than_its_score(number, y)
        except (TypeError, ValueError) as problem:
            raise type(problem)(f"oracle: {problem}") from None
        return value, y

    def topk(self, k: int) -> KBest:
        """The k best outputs, by the structure ``kind`` without the oracle."""
        own = object.__new__(self.kind)
        own.__dict__.update(self.__dict__)
        return own.topk(k)  # type: ignore[no-any-return]

    def _refuse_other_than_its_score(self, value: float, y: Array) -> None:
        """Raises ValueError unless y is a possible output and ``value`` is its score."""
        entries = host(flatten(self.scores)).astype(np.float64)
        if not np.all(entries < np.inf):  # the weights are not finite: no output has a score
            return
        score = float(self.score(y))
        if np.any(self.states(y) < 0):
            raise ValueError(f"output: expected a state of each variable, got {host(y).tolist()}")
        if score == -np.inf:
            raise ValueError(f"output: expected one that is not forbidden, got {host(y).tolist()}")
        if not abs(value - score) <= CLOSE * np.abs(entries[entries > -np.inf]).sum():
            raise ValueError(f"value: expected the score of the output, {score:g}, got {value:g}")
