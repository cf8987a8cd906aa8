"""A run: history, clock, callback, interrupts and checkpoints of an iterative method; :func:`minimize` drives it."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reference.arrays import Array, Place, host, read_only_copy
from reference.files import NotWritten
from reference.records import write_records
from reference.structures.sampling import generator
from reference.training.checkpoints import check_identity, numbers_of, read_checkpoint, same_value
from reference.training.result import Callback, Report, Result, Row, judged, padded

__all__ = ["Ending", "Lost", "Point", "Run", "untimed"]

SHARE = 10  # spend at most 1/10 of the run on writing checkpoints

_untimed: ContextVar[float] = ContextVar("untimed", default=0.0)  # all untimed seconds so far in this thread


class Lost(RuntimeError):
    """The workers that compute the objective were lost.

    The run ends as by Ctrl-C: with the best iterate, and with a checkpoint.
    """


@contextmanager
def untimed() -> Iterator[None]:
    """A block whose time does not count: not in its run, nor in an outer run that its run is a step of."""
    started, before = time.perf_counter(), _untimed.get()
    try:
        yield
    finally:
        _untimed.set(before + time.perf_counter() - started)


class Point(NamedTuple):
    """Weights x (d,) with their objective and gap; gap None if unknown."""

    x: Array
    fun: float
    gap: float | None


class Ending(NamedTuple):
    """How a run ended: success and the message, the iterate returned, its certificate, and the number of steps (None:
    the passes).
    """

    outcome: tuple[bool, str]
    iterate: str = "last"
    certificate: float | str | None = None
    nit: int | None = None


class Done(NamedTuple):
    """Progress after the last complete epoch: what an interrupted run returns and a checkpoint keeps.

    rows: number of rows of the history. last, best: the last iterate and the best one. state: of the solver. rng: the
    state of the random number generator. seconds: the clock. first: the objective at the start.
    """

    rows: int
    last: Point
    best: Point
    state: Any = None
    rng: Any = None
    seconds: float = 0.0
    first: float = np.nan


def path_of(name: str, path: Any) -> Path | None:
    """A path, or None; TypeError names the argument."""
    if path is None or isinstance(path, (str, os.PathLike)):
        return None if path is None else Path(path)
    raise TypeError(f"{name}: expected the path of a file, got {type(path).__name__}")


class Run:
    """One run of an optimiser, with the options of a run that :mod:`reference.training.public` documents.

    terms: of the solver. n: examples. start (d,), or a NamedTuple of arrays: returned if no epoch was done. identity:
    what a resumed run must have in common; its "form" is the type of the states, if only one panel can read them, and
    they may change in place. epochs: with those that a resumed run did before. written: called with the state of a
    checkpoint when its file has been written.

    A run ends when its gap is at most ``tol`` times the objective, or is rounding and no longer falls; or when a report
    says that the problem is solved. A checkpoint is written after epochs, with at most a tenth of the time spent on
    writing; on an interrupt; and at the end, even of no epoch. With a form, an interrupted epoch may have changed the
    state in place: then the last file stays, and the first one is written before the first epoch. A file that cannot be
    written, as on a full disk, is a warning (:class:`NotWritten`), and the run goes on. Rows, weights, seconds and
    random numbers of a resumed run are those of an uninterrupted one; its ``start`` is not used.
    """

    def __init__(
        self,
        terms: Any,
        n: int,
        start: Array,
        identity: Mapping[str, Any],
        *,
        epochs: int,
        tol: float | None = None,
        rng: int | np.random.Generator | None = None,
        callback: Callback | None = None,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
        written: Callable[[Any], None] = lambda state: None,
    ) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback: expected a callable, got {type(callback).__name__}")
        self.epochs_asked, self.callback, self.tol, self.n, self.written = epochs, callback, tol, n, written
        self.unit, self.still = terms.unit, 0 if tol is None else terms.still
        self.rng, self._identity = generator(rng), identity
        self.checkpoint, self.resume = path_of("checkpoint", checkpoint), path_of("resume", resume)
        if self.checkpoint is not None and not self.checkpoint.absolute().parent.is_dir():
            raise ValueError(f"checkpoint: no such folder: {self.checkpoint.absolute().parent}")
        self.history: list[Row] = []
        self.seconds, self.stopped, self.interrupted, self.calls_before = 0.0, False, False, 0
        self.why = self._unwritten = ""
        self._whole, self._saved, self._next_save = False, -1, 0.0  # whether the state may be saved; -1: no file yet
        self._solved: bool | None = None
        self._from_zero = not np.any(host(numbers_of(start)))
        point = Point(start, np.nan, None)
        self._done = Done(0, point, point)
        # the state in the checkpoint to continue from; None without a checkpoint
        self.resumed: Any = None if self.resume is None else self._read(Place.of(numbers_of(start)))

    # the loop ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Run:
        self._outside = np.seterr(over="ignore", invalid="ignore")  # a run that diverges is reported
        return self

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> bool:
        np.seterr(**self._outside)
        del self.history[self._done.rows :]
        self.interrupted = kind is not None and issubclass(kind, (KeyboardInterrupt, Lost))
        self.why = str(problem) if isinstance(problem, Lost) else ""
        if self._whole and self._done.rows > self._saved:
            try:
                self._save()
            except KeyboardInterrupt:  # the iterates are whole
                self.interrupted = True
        return self.interrupted

    def begin(self, report: Report, state: Any) -> None:
        """Set the iterate before the first epoch; a resumed run needs its objective, others may give nan."""
        self._solved = report.solved
        if self.resumed is None:
            self.calls_before = int(report.calls or 0)
            gap = padded(report.gap, report.fun, report.fun, report.x, self.n)
            self._keep(Point(report.x, float(report.fun), gap), state)
            if self._identity["form"] is not None:
                self._save()
                self._next_save = 0.0
        elif (self.history or np.isfinite(self.fun)) and not same_value(report.fun, self.fun, report.x):
            raise ValueError(
                f"resume: {self.resume} is of other data: the objective at its weights is {self.fun}, here {report.fun}"
            )
        self._whole = True

    def _keep(self, last: Point, state: Any) -> None:
        """Take this point and state for the progress so far."""
        best, rows, start = self._done.best, len(self.history), self.first if self.history else last.fun
        better = self._done.rows == 0 or last.fun < best.fun or np.isnan(best.fun)
        rng = self.rng.bit_generator.state
        self._done = Done(rows, last, last if better else best, state, rng, self.seconds, start)
        self._whole = True

    def epochs(self) -> Iterator[int]:
        """The numbers of the next epochs, until there is a reason to stop."""
        k = self.done
        while k < self.epochs_asked and not self.over:
            self._whole = self._identity["form"] is None
            yield k + 1
            k = max(k + 1, self.done)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """A block whose time counts, except for blocks of :func:`untimed` in it."""
        started, before = time.perf_counter(), _untimed.get()
        yield
        self.seconds += time.perf_counter() - started - (_untimed.get() - before)

    def record(self, state: Any, report: Report, epoch: int) -> None:
        """End an epoch: add its row, keep its state, write a checkpoint if one is due, call the callback."""
        x, fun, dual, gap, exact, calls, passes, prox_gradient = report[:8]
        gap = padded(fun - dual if gap is None and dual is not None else gap, fun, self.scale, x, self.n)
        # plain numbers, from whatever types the objective computes in
        numbers = (value if value is None else float(value) for value in (dual, gap, exact, prox_gradient))
        calls, passes = epoch * self.n if calls is None else int(calls), epoch if passes is None else int(passes)
        row = Row(passes, calls, self.seconds - report.later, float(fun), *numbers)
        self.history.append(row)
        self._solved = report.solved
        self._keep(Point(x, row.objective, row.gap), state)
        if time.perf_counter() >= self._next_save:
            self._save()
        if self.callback is not None:
            with np.errstate(**self._outside):
                try:
                    answer = self.callback(row, read_only_copy(x))  # its own: it may keep it, and cannot change the run
                    self.stopped = isinstance(answer, (bool, np.bool_)) and bool(answer)
                except StopIteration:
                    self.stopped = True

    # progress ---------------------------------------------------------------------------------------------------------

    @property
    def done(self) -> int:
        """Epochs done."""
        return self.history[-1].epoch if self.history else 0

    @property
    def fun(self) -> float:
        """The objective of the last recorded iterate."""
        return self._done.last.fun

    @property
    def first(self) -> float:
        """The objective at the start; nan if it was not evaluated."""
        return self._done.first

    @property
    def scale(self) -> float:
        """The size of the losses: the objective at w = 0 if the run started there; 0 for other starts."""
        return self.first if self._from_zero and np.isfinite(self.first) else 0.0

    @property
    def gap(self) -> float | None:
        """The gap of the last recorded iterate."""
        return self._done.last.gap

    @property
    def over(self) -> bool:
        """Whether there is a reason to stop."""
        diverged = bool(self.history) and not np.isfinite(self.fun + (self.gap or 0.0))
        flat = self.tol is not None and self._solved is None and self.flat
        return self.stopped or diverged or self.solved or flat or self.stuck

    @property
    def rounded(self) -> bool:
        """Whether at least half of the last gap is a bound on rounding."""
        row = self.history[-1] if self.history else None
        if row is None or row.gap is None or row.dual is None:
            return False
        return bool(2 * (row.objective - row.dual) <= row.gap)

    @property
    def flat(self) -> bool:
        """Whether the last gap is rounding, and falls by less than 1 % of that."""
        before, gap = (self.history[-2].gap if len(self.history) > 1 else None), self.gap
        return self.rounded and before is not None and gap is not None and gap >= 0.99 * before

    @property
    def stuck(self) -> bool:
        """Whether the last ``still`` epochs have not changed the dual."""
        duals = [row.dual for row in self.history[-self.still - 1 :]]
        return 0 < self.still < len(duals) and all(dual == duals[0] for dual in duals)

    @property
    def solved(self) -> bool:
        """Whether the last iterate is good enough."""
        if self._solved is not None:
            return self._solved
        tol, fun, gap = self.tol, self.fun, self.gap
        return tol is not None and gap is not None and bool(np.isfinite(fun)) and gap <= tol * abs(fun)

    @property
    def ending(self) -> tuple[bool, str] | None:
        """Success and the message of a run that diverged, whose gap overflows or that was stopped by the callback; None
        of other runs.
        """
        if self.history and not np.isfinite(self.fun):
            return False, f"diverged in epoch {self.done}: objective {self.fun}; take shorter steps"
        done = f"after {self.done} of {self.epochs_asked} {self.unit}"
        if self.history and self.gap is not None and not np.isfinite(self.gap):
            return False, f"stopped {done}: the gap overflows to {self.gap}"
        return (True, f"stopped by the callback {done}") if self.stopped else None

    def finished(self, ending: Ending, state: Any) -> Run:
        """With its state and result: the last iterate with the outcome of this ending, as :class:`Result` judges it.

        Of an interrupted run: the best iterate with its gap.
        """
        (success, message), iterate, certificate, nit = ending
        point = self._done.best if self.interrupted else self._done.last
        if self.interrupted:
            success, message = False, f"interrupted after {self.done} of {self.epochs_asked} {self.unit}"
            if point is not self._done.last:
                message += ", of which this is the one of lowest objective"
            message += f"; {self.why}" if self.why else ""
            certificate = certificate if isinstance(certificate, str) else point.gap
        certificate = "none: nothing was evaluated" if certificate is None else certificate
        if success and self.ending is None:
            success, message = judged(message, certificate, point.fun, self.tol)
        behind = self.interrupted and max(self._saved, 0) < self._done.rows
        if self.checkpoint is not None and (behind or self._unwritten):
            epoch = self.history[self._saved - 1].epoch if self._saved > 0 else 0
            message += f"; the checkpoint is of epoch {epoch}{self._unwritten and f' ({self._unwritten})'}"
        calls = self.history[-1].oracle_calls if self.history else self.calls_before
        nit, history = self.done if nit is None else nit, tuple(self.history)
        certificate = certificate if isinstance(certificate, str) else float(certificate)
        words = message, iterate, calls, certificate, history, self.interrupted
        self.state, self.result = state, Result(point.x, point.fun, nit, bool(success), *words)
        return self

    # checkpoints ------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        started, done = time.perf_counter(), self._done
        rows = [list(row.as_dict().values()) for row in self.history[: done.rows]]
        content = {"run": self._identity, "calls_before": self.calls_before, "history": rows, "done": done}
        try:
            write_records(self.checkpoint, content)
            self.written(done.state)
            self._saved, self._unwritten = done.rows, ""
        except OSError as problem:
            why = (problem.strerror or str(problem)).lower()
            if not self._unwritten:
                what = f"{self.checkpoint}: {why}: the checkpoint is not written; the run goes on"
                warnings.warn(what, NotWritten, stacklevel=2)
            self._unwritten = why
        written = time.perf_counter()
        self._next_save = written + SHARE * (written - started)

    def _read(self, place: Place) -> Any:
        """Read the checkpoint and return its state; ValueError if it is damaged or of another run."""
        content = read_checkpoint(self.resume, place)  # type: ignore[arg-type]
        try:
            theirs, done, rows = content["run"].copy(), content["done"], [Row(*row) for row in content["history"]]
            self.history, self.calls_before = rows, content["calls_before"]
            self._done, self.seconds = done, done.seconds
            kind = getattr(np.random, done.rng["bit_generator"])
            if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
                raise ValueError(f"no generator of random numbers: {done.rng['bit_generator']}")
            rng = np.random.Generator(kind())
            rng.bit_generator.state = done.rng
        # NumPy raises NotImplementedError for the base class of bit generators
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, NotImplementedError) as problem:
            raise ValueError(f"{self.resume}: damaged checkpoint: {type(problem).__name__}: {problem}") from None
        check_identity(theirs, self._identity, self.resume)
        if self.done > self.epochs_asked:
            raise ValueError(
                f"resume: {self.resume} has done {self.done} {self.unit}, this run asks for {self.epochs_asked} in all"
            )
        self.rng = rng
        self._saved = done.rows if self.checkpoint == self.resume else -1
        return done.state
