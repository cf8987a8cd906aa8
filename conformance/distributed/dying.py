"""A client of Dask whose workers compute for real and die.

It has what :class:`diptych.distributed.transports.Dask` asks of a client. Tasks run when somebody waits for them. As
Dask does, it runs again the task of a worker that died, and those whose results only that worker had; a task that saw
four workers die ends in KilledWorker.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from distributed import KilledWorker

__all__ = ["DyingClient"]

ALLOWED = 3  # deaths of workers under a task


class Future:
    """The future of a task."""

    def __init__(self, client: DyingClient, task: Callable[..., Any], arguments: tuple[Any, ...], home: Any) -> None:
        self.client, self.task, self.arguments, self.home = client, task, arguments, home
        self.status, self.worker, self.deaths, self.answer = "pending", None, 0, None

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        self.client.finish(self)
        callback(self)

    def result(self) -> Any:
        self.client.finish(self)  # again, if it was lost after it was there
        if self.status == "error":
            raise self.answer
        return self.answer

    def exception(self) -> Any:
        self.client.finish(self)
        return self.answer if self.status == "error" else None

    def release(self) -> None:
        """Its result is needed no more, so that it is not lost with a worker."""
        self.client.held.pop(self, None)


class DyingClient:
    """``workers`` workers. die: the probability that the worker of a task dies under it; another comes."""

    status = "running"
    scheduler = SimpleNamespace(address="dying")

    def __init__(self, workers: int, die: float = 0.0) -> None:
        self.die, self.rng, self._number = die, np.random.default_rng(0), itertools.count(workers)
        self.alive = list(range(workers))
        self.placed: list[tuple[Callable[..., Any], list[Any], int]] = []  # tasks that ended: arguments, worker
        self.held: dict[Future, None] = {}
        self.asked, self.ran, self.again, self.died = 0, 0, 0, 0
        self._counting = False

    def submit(
        self,
        task: Callable[..., Any],
        *arguments: Any,
        pure: bool,
        workers: tuple[Any, ...] = (None,),
        allow_other_workers: bool = True,
    ) -> Future:
        self.asked += 1
        return Future(self, task, arguments, workers[0])

    def run_on_scheduler(self, count: Callable[..., Any]) -> int | None:
        return self.again if self._counting else None

    def register_plugin(self, plugin: Any) -> None:
        self._counting = True

    def run(self, task: Callable[..., Any], on_error: str) -> dict[str, int]:
        return {}  # its workers give nothing to one another

    def nthreads(self) -> dict[int, int]:
        return dict.fromkeys(self.alive, 1)

    def finish(self, future: Future) -> None:
        """Run the task, after those that it needs, until it has ended: on its own worker, if that lives."""
        while future.status == "pending":
            needs = [each for each in future.arguments if isinstance(each, Future)]
            for need in needs:
                self.finish(need)
            if (failed := next((need for need in needs if need.status == "error"), None)) is not None:
                future.status, future.answer = "error", failed.answer
            elif all(need.status == "finished" for need in needs):  # none was lost while others ran
                future.worker = future.home if future.home in self.alive else int(self.rng.choice(self.alive))
                if self.rng.random() < self.die:
                    self._dies(future)
                else:
                    self._ends(future)

    def _ends(self, future: Future) -> None:
        fetched = [each.answer if isinstance(each, Future) else each for each in future.arguments]
        self.ran += 1
        self.placed.append((future.task, fetched, future.worker))
        self.held[future] = None
        try:
            future.answer, future.status = future.task(*fetched), "finished"
        except Exception as problem:  # the task's own error
            future.answer, future.status = problem, "error"

    def _dies(self, future: Future) -> None:
        self.died, self.again, future.deaths = self.died + 1, self.again + 1, future.deaths + 1
        self.alive[self.alive.index(future.worker)] = next(self._number)
        if future.deaths > ALLOWED:
            future.status, future.answer = "error", KilledWorker("task", None, ALLOWED)
        for lost in [each for each in self.held if each.worker == future.worker and each.status == "finished"]:
            del self.held[lost]
            lost.status, lost.answer = "pending", None
            self.again += 1
