"""Structures whose best output a callable of the user's finds: another library's solver, say.

The callable takes the scores and returns what ``best`` of the structure returns: the highest score and an output that
has it. The structure answers all other questions.
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

Oracle = Callable[[Scores], tuple[Any, Any]]  # from scores to (value, output), value -inf where all is forbidden

CLOSE = 1e-4  # how far a value may be from the score of its output, relative to the sum of all scores' sizes


def answered_by(kind: type[Structure], oracle: Oracle) -> type[Structure]:
    """The structure ``kind``, not of batches, with ``oracle`` in the place of ``best``; TypeError for what is not
    callable.
    """
    if not callable(oracle):
        raise TypeError(f"oracle: expected a callable, from scores to (value, output), got {oracle!r}")
    name = f"{kind.__name__}(oracle={getattr(oracle, '__name__', type(oracle).__name__)})"
    fields = {"__doc__": kind.__doc__, "kind": kind, "oracle": staticmethod(oracle)}
    return made_of(name, (_ByOracle, kind), fields, (answered_by, (kind, oracle)))


def made_of(name: str, bases: tuple[Any, ...], fields: dict[str, Any], recipe: tuple[Any, ...]) -> type[Any]:
    """A structure made of others while the program runs, which is pickled by its recipe: (function, arguments)."""
    return _Made(name, bases, {**fields, "__module__": bases[-1].__module__, "recipe": recipe})


class _Made(type):
    recipe: tuple[Any, ...]


copyreg.pickle(_Made, lambda made: made.recipe)


class _ByOracle(Structure):
    kind: type[Any]
    oracle: Oracle

    def best(self) -> tuple[Array, Array]:
        """The oracle's answer, checked, in the scores' place. Raises InfeasibleError, ValueError, TypeError."""
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
        """The k best outputs, by the structure itself."""
        own = object.__new__(self.kind)
        own.__dict__.update(self.__dict__)
        return own.topk(k)  # type: ignore[no-any-return]

    def _refuse_other_than_its_score(self, value: float, y: Array) -> None:
        """Raise unless y is an output, of this score."""
        each = host(flatten(self.scores)).astype(np.float64)
        if not np.all(each < np.inf):  # weights that left the finite numbers: nothing has a score
            return
        score = float(self.score(y))
        if np.any(self.states(y) < 0):
            raise ValueError(f"output: expected a state of each variable, got {host(y).tolist()}")
        if score == -np.inf:
            raise ValueError(f"output: expected one that is not forbidden, got {host(y).tolist()}")
        if not abs(value - score) <= CLOSE * np.abs(each[each > -np.inf]).sum():
            raise ValueError(f"value: expected the score of the output, {score:g}, got {value:g}")
