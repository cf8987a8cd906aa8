"""What an optimiser returns: one result, one row of history a pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from reference.arrays import Array

__all__ = ["Report", "Result", "Row"]


@dataclass(frozen=True)
class Row:
    """One pass over the data.

    epoch: passes so far. oracle_calls: examples' oracles so far, evaluations of the objective not counted. seconds:
    time so far without them. objective: F(w) + lam/2 ||w||^2 at the iterate that would be returned now. dual, gap:
    where known. exact: the share of examples whose smoothed max is certified exact there, where smoothings are asked.
    prox_gradient: the norm of the prox-gradient of a nonconvex objective, where the step began.
    """

    epoch: int
    oracle_calls: int
    seconds: float
    objective: float
    dual: float | None = None
    gap: float | None = None
    exact: float | None = None
    prox_gradient: float | None = None

    def __post_init__(self) -> None:
        _as_plain(self, epoch=int, oracle_calls=int, seconds=float, objective=float)
        _as_plain(self, dual=float, gap=float, exact=float, prox_gradient=float)

    def as_dict(self) -> dict[str, Any]:
        """The row as a plain dictionary, for JSON."""
        return asdict(self)


class Report(NamedTuple):
    """The iterate x that would be returned, and what it is worth: the fields of a :class:`Row`.

    calls: oracles so far (None: n a pass). passes: so far (None: one an epoch). later: of the
    epoch's seconds, those of work for the next one. detail: what else was seen, for ``settle``.
    """

    x: Array
    fun: float
    dual: float | None = None
    gap: float | None = None
    exact: float | None = None
    calls: int | None = None
    passes: int | None = None
    prox_gradient: float | None = None
    later: float = 0.0
    detail: Any = None


@dataclass(frozen=True)
class Result:
    """The outcome of an optimisation; names as in SciPy where SciPy has them.

    x: weights (d,); ``iterate`` says which: "last" or the average taken. fun: objective at x. nit: passes or
    iterations. certificate: a proved bound on fun minus the optimum, or a sentence saying why there is none.
    interrupted: whether Ctrl-C ended it; x is then the iterate of the lowest objective in ``history``, or the start
    (fun nan if that was not evaluated).
    """

    x: Array = field(repr=False)
    fun: float
    nit: int
    success: bool
    message: str = field(repr=False)
    iterate: str = field(repr=False)
    oracle_calls: int = field(repr=False)
    certificate: float | str = field(repr=False)
    history: tuple[Row, ...] = field(repr=False)
    interrupted: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        _as_plain(self, fun=float, nit=int, success=bool, oracle_calls=int)
        if not isinstance(self.certificate, str):
            _as_plain(self, certificate=float)


def _as_plain(record: Any, **kinds: type) -> None:
    """Make these fields plain Python numbers, whatever the objective counts and sums in; None stays."""
    for name, kind in kinds.items():
        if getattr(record, name) is not None:
            object.__setattr__(record, name, kind(getattr(record, name)))


Callback = Callable[[Row, Array], Any]


def wants_to_stop(callback: Callback | None, row: Row, w: Array) -> bool:
    """Give the row and its weights (d,) to the callback; True if it returned True or raised StopIteration."""
    if callback is None:
        return False
    try:
        answer = callback(row, w)
        return isinstance(answer, (bool, np.bool_)) and bool(answer)
    except StopIteration:
        return True


def small_enough(gap: float, fun: float, tol: float | None) -> bool:
    """Whether a gap is at most ``tol`` times the objective; no tol is never met."""
    return tol is not None and bool(np.isfinite(fun)) and gap <= tol * abs(fun)


def not_above(value: float, other: float, x: Array) -> bool:
    """value <= other, up to the rounding of sums at weights like x."""
    return value <= other + 1e3 * float(array_namespace(x).finfo(x.dtype).eps) * abs(other)
