"""A client of Dask with a virtual clock: many workers that compute for real, at times that are drawn, and that die.

It has what :class:`diptych.distributed.transports.Dask` asks of a client. Nothing sleeps and nothing runs beside it:
the clock moves when somebody waits for a future. As Dask does, it runs again the tasks of a worker that died, and those
whose results only that worker had; a task that saw four workers die ends in KilledWorker.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from distributed import KilledWorker

__all__ = ["VirtualClient"]

ALLOWED = 3  # deaths of workers under a task


class Future:
    """The future of a task."""

    def __init__(self, client: VirtualClient, task: Callable[..., Any], arguments: tuple[Any, ...], home: Any) -> None:
        self.client, self.task, self.arguments, self.home = client, task, arguments, home
        self.fetched: list[Any] = []  # the arguments, on the worker
        self.needs = [each for each in arguments if isinstance(each, Future)]
        self.status, self.worker, self.deaths, self.answer = "pending", None, 0, None

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        self.client.run_until(self)
        callback(self)

    def result(self) -> Any:
        self.client.run_until(self)  # again, if it was lost after it was there
        if self.status == "error":
            raise self.answer
        return self.answer

    def release(self) -> None:
        """Its result is needed no more, so that it is not lost with a worker."""
        self.client.held = [each for each in self.client.held if each is not self]

    def exception(self) -> Any:
        self.client.run_until(self)
        return self.answer if self.status == "error" else None


class VirtualClient:
    """``workers`` workers. seconds: of a task, from the function and its arguments. die: the mean virtual seconds that
    a worker lives (None: for ever); it comes back after ``away`` seconds. spread: sigma of log-normal times.
    """

    status = "running"
    scheduler = SimpleNamespace(address="virtual")

    def __init__(
        self,
        workers: int,
        seconds: Callable[[Callable[..., Any], list[Any]], float],
        *,
        die: float | None = None,
        away: float = 1.0,
        spread: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.seconds, self.rng = seconds, np.random.default_rng(seed)
        self.die, self.away, self.spread = die, away, spread
        self.clock, self.events, self._number = 0.0, [], itertools.count()  # type: ignore[var-annotated]
        self.idle: dict[int, None] = {}
        self.alive: dict[int, int] = {}  # worker: its life
        self.placed: list[tuple[Callable[..., Any], list[Any], int]] = []  # tasks that ended: arguments, worker
        self.ready: deque[Future] = deque()
        self.running: dict[int, Future] = {}
        self.held: list[Future] = []
        self.asked, self.ran, self.again, self.died = 0, 0, 0, 0
        self._counting = False
        for worker in reversed(range(workers)):
            self._comes(worker)

    # what the transport asks -----------------------------------------------------------------------------------------

    def submit(
        self,
        task: Callable[..., Any],
        *arguments: Any,
        pure: bool,
        workers: tuple[Any, ...] = (None,),
        allow_other_workers: bool = True,
    ) -> Future:
        future = Future(self, task, arguments, workers[0])
        self.asked += 1
        self.ready.append(future)
        return future

    def run_on_scheduler(self, count: Callable[..., Any]) -> int | None:
        return self.again if self._counting else None

    def register_plugin(self, plugin: Any) -> None:
        self._counting = True

    def run(self, task: Callable[..., Any], on_error: str) -> dict[str, int]:
        return {}  # its workers give nothing to one another

    def nthreads(self) -> dict[int, int]:
        return dict.fromkeys(self.alive, 1)

    # the clock --------------------------------------------------------------------------------------------------------

    def run_until(self, future: Future) -> None:
        """Move the clock until the future has ended."""
        while future.status not in ("finished", "error"):
            self._hand_out()
            assert self.events, "nothing will happen any more"
            self._next()

    def _next(self) -> None:
        self.clock, _, what, worker, life = heapq.heappop(self.events)
        if self.alive.get(worker) == life:  # the event is of this life of the worker, or of its absence
            what(worker)

    def _hand_out(self) -> None:
        """Ready tasks, whose needs are there, to idle workers: to their own if it lives, as Dask does."""
        for _ in range(len(self.ready)):
            if not self.idle:
                return
            future = self.ready.popleft()
            if any(need.status == "error" for need in future.needs):
                future.status, future.answer = "error", next(n.answer for n in future.needs if n.status == "error")
            elif all(need.status == "finished" for need in future.needs) and (
                future.home in self.idle or future.home not in self.alive
            ):
                worker = future.home if future.home in self.idle else next(reversed(self.idle))
                del self.idle[worker]
                future.worker, self.running[worker] = worker, future
                future.fetched = [each.answer if isinstance(each, Future) else each for each in future.arguments]
                drawn = float(np.exp(self.spread * self.rng.normal() - 0.5 * self.spread**2))
                self._event(self.seconds(future.task, future.fetched) * drawn, self._end, worker)
            else:
                self.ready.append(future)

    def _end(self, worker: int) -> None:
        future = self.running.pop(worker)
        self.ran += 1
        self.placed.append((future.task, future.fetched, worker))
        try:
            future.answer, future.status = future.task(*future.fetched), "finished"
        except Exception as problem:  # the task's own error
            future.answer, future.status = problem, "error"
        self.held.append(future)
        self.idle[worker] = None

    def _dies(self, worker: int) -> None:
        self.died += 1
        self.alive.pop(worker)
        self.idle.pop(worker, None)
        lost = [future for future in self.held if future.worker == worker and future.status == "finished"]
        self.held = [future for future in self.held if future.worker != worker]
        if (future := self.running.pop(worker, None)) is not None:
            future.deaths += 1
            if future.deaths > ALLOWED:
                future.status, future.answer = "error", KilledWorker("task", None, ALLOWED)
            else:
                lost.append(future)
        for future in lost:
            future.status, future.answer = "pending", None
            self.again += 1
            self.ready.append(future)
        self._event(self.away, self._comes, worker)

    def _comes(self, worker: int) -> None:
        self.alive[worker], self.idle[worker] = next(self._number), None
        if self.die is not None:
            self._event(float(self.rng.exponential(self.die)), self._dies, worker)

    def _event(self, after: float, what: Callable[[int], None], worker: int) -> None:
        event = self.clock + after, next(self._number), what, worker, self.alive.get(worker)
        heapq.heappush(self.events, event)
