"""What an optimiser returns, with one row of history for each pass; and the state of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, epsilon

__all__ = ["Counts", "Report", "Result", "Row", "RunState", "StepLength"]


@dataclass(frozen=True)
class Row:
    """One pass over the data.

    epoch: passes so far. oracle_calls, seconds: oracle calls of one example, and time, so far, without evaluations of
    the objective. objective: F(w) + lam/2 ||w||^2 at the iterate that would be returned now. dual, gap: None if
    unknown; the gap is objective - dual, :func:`padded` for their rounding, and never negative. exact: the share of
    examples whose smoothed max is certified exact; None for methods without a smoothing. prox_gradient: for a nonconvex
    objective, the norm of the prox-gradient at the start of the step.
    """

    epoch: int
    oracle_calls: int
    seconds: float
    objective: float
    dual: float | None = None
    gap: float | None = None
    exact: float | None = None
    prox_gradient: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The row as a plain dictionary, for JSON."""
        return asdict(self)


class Report(NamedTuple):
    """The iterate x that would be returned, and the fields of its :class:`Row`.

    calls: oracle calls so far (None: n a pass). passes: passes so far (None: one an epoch). later: seconds of the epoch
    that were spent on work for the next one. detail: further information for ``accept``. solved: whether the iterate is
    good enough to stop (None: if its gap is).
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
    solved: bool | None = None


@dataclass(frozen=True)
class Result:
    """The outcome of an optimisation; names as in SciPy where SciPy has them.

    x: weights (d,); ``iterate`` names the iterate: "last", or the kind of average. fun: objective at x. nit: passes or
    iterations. certificate: a bound on fun minus the optimum, padded for rounding and never negative, or a sentence
    saying why there is none.

    success: with ``tol``, whether ``tol`` was reached, in the optimiser's own sense; solve_sparse always has one.
    Without ``tol``, or with tol = 0, whether the run ended as planned and the certificate is at most 1 % of |fun|;
    else the message gives both numbers. A certificate of nan or inf is above it, 0 with fun = 0 is not. The rule does
    not depend on the number of epochs, which may be 0. If there is no number, nothing is known against the run: success
    is True, and the message says "not certified". A run that the callback stopped did as it was told: success is True.
    A run that diverged, grew or was interrupted has success False. Each of these keeps its own message.

    interrupted: whether Ctrl-C ended the run. Then x is the iterate of lowest objective in ``history``, or the start
    (with fun = nan if the start was not evaluated).
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


CONVERGED = 0.01  # the largest certificate of a run that has converged, as a share of |objective|
UNCERTIFIED = "; not certified: "


def judged(message: str, certificate: float | str, fun: float, tol: float | None) -> tuple[bool, str]:
    """Success and the message of a run that ended as planned, by the rule of :class:`Result`."""
    if isinstance(certificate, str):
        return True, message + UNCERTIFIED + certificate.removeprefix("none: ")
    if tol or certificate <= CONVERGED * abs(fun):
        return True, message
    share = f"{100 * CONVERGED:g} % of the objective {fun:.6g}"
    return False, f"{message}: the certificate {certificate:.3g} is more than {share}"


Callback = Callable[[Row, Array], Any]


def padded(gap: float | None, fun: float, scale: float, x: Array, n: int) -> float | None:
    """A computed gap of weights x (d,) plus a bound on its rounding error; None stays. It is never negative.

    The bound is 4 eps sqrt(n + d) (|fun| + |dual| + |scale|), eps that of the dtype, scale the objective at w = 0:
    errors of N additions grow like sqrt(N), and losses and scores of that size cancel in a small
    one. 4 leaves room for sums within an example. If the gap is below the negative of its bound, it is the bound.
    """
    if gap is None:
        return None
    share = 4.0 * epsilon(x) * float(n + x.shape[0]) ** 0.5
    return float(max(gap + (share * abs(fun) + share * abs(fun - gap) + share * abs(scale)), -gap))


def not_above(value: float, other: float, x: Array, scale: float = 0.0) -> bool:
    """value <= other, up to the rounding of sums at weights like x, of the magnitude of ``other`` or ``scale``."""
    return bool(value <= other + 1e3 * epsilon(x) * max(abs(other), abs(scale)))


class Counts(NamedTuple):
    """Numbers so far.

    epochs: of epochs done. kept, rejected: of steps or passes that were accepted and that were not. halved: of step
    lengths. missed: of subproblems not solved to their tolerance. calls: of oracle calls that the box does not count.
    """

    epochs: int = 0
    kept: int = 0
    rejected: int = 0
    halved: int = 0
    missed: int = 0
    calls: int = 0

    def plus(self, **more: int) -> Counts:
        """With these numbers added."""
        return self._replace(**{name: getattr(self, name) + value for name, value in more.items()})


class StepLength(NamedTuple):
    """The step length eta, and a bound on the norm of the prox-gradient at the start of the last accepted step."""

    eta: float
    bound: float = np.inf


class RunState(NamedTuple):
    """box: the state of the box. search: what was found for the next epochs, such as a step size or a schedule.

    evaluation: of the last accepted iterate. later: seconds of the last epoch that count in the next one.
    """

    box: Any
    search: Any = None
    counts: Counts = Counts()
    evaluation: Any = None
    later: float = 0.0
