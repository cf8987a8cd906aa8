"""Our rounds and retries, with a client of hundreds of workers, many of which die. What a pass costs: the model, its
limits, its fit."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import KilledWorker

import reference
from conformance.distributed.test_partitioned import METHODS, bits
from diptych.distributed import Partitioned, WorkersLost
from diptych.distributed.cost import Cost, Pass, fitted, largest
from diptych.distributed.partitions import measured, summed
from reference import LogLoss, SequenceModel


@dataclass(frozen=True)
class Tiny:
    """Two short sequences."""

    seed: int

    def __call__(self) -> tuple[list[Any], list[Any]]:
        rng = np.random.default_rng(self.seed)
        return [rng.normal(size=(2, 2)) for _ in range(2)], [rng.integers(0, 2, 2).tolist() for _ in range(2)]


def on(client, partitions):
    return Partitioned([Tiny(k) for k in range(partitions)], SequenceModel(2, 2), LogLoss, client)


@pytest.mark.beyond("long runs")
def test_hundreds_of_workers_that_die_change_no_bit():
    """Each evaluation meets deaths; the bits are those of this process, and what ran again was lost before."""
    here, client = on(None, 400), DyingClient(300, die=0.04)
    objective = on(client, 400)
    w = np.linspace(-1, 1, here.model.size)
    for step in range(3):
        ours, theirs = objective.value_and_gradient(w + step), here.value_and_gradient(w + step)
        assert ours[0].hex() == theirs[0].hex() and ours[1].tobytes() == theirs[1].tobytes()
    assert client.died > 30 and objective.repeated == client.again > 30
    assert client.ran <= client.asked + client.again  # nothing that was not asked for


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_the_bits_of_this_process(name):
    client = DyingClient(4, die=0.05)
    assert bits(reference, name, client) == bits(reference, name) and client.again > 0


def test_an_error_of_a_task_is_raised_at_once():
    def broken():
        raise ValueError("file.txt, line 3: broken")

    client = DyingClient(4)
    with pytest.raises(ValueError, match=r"^file\.txt, line 3"):
        Partitioned([Tiny(0), broken], SequenceModel(2, 2), LogLoss, client)


def test_workers_that_all_die_at_once_end_the_run():
    """Given up after some tries, with a message."""
    with pytest.raises(WorkersLost, match="tasks were lost with their workers 5 times"):
        on(DyingClient(3, die=1.0), 4)


def test_a_partition_is_read_by_one_worker_and_again_only_after_a_death():
    for die in (0.0, 0.05):
        client = DyingClient(10, die)
        objective = on(client, 40)
        for _ in range(6):
            objective.value_and_gradient(objective.zeros())
        places = {(given[1], worker) for task, given, worker in client.placed if task is measured}
        places |= {(given[2], worker) for task, given, worker in client.placed if task is summed}
        assert len({k for k, _ in places}) == 40
        if die == 0:
            assert len(places) == 40 and client.ran == client.asked and objective.repeated == 0
            assert max(Counter(worker for _, worker in places).values()) == 4  # evenly
        else:
            assert client.died > 0 and len(places) <= 40 + 12 * client.died  # its four go elsewhere, home, back


# the model of cost ----------------------------------------------------------------------------------------------------


COST = Cost(2e-6, 3e-9, 2e-9, 1e-9, 2e-4, 0.01)
PASSES = [
    Pass(n, d, w, p, machines=m)
    for n in (1e5, 1e6)
    for d in (1e5, 1e7)
    for w, m in ((1, 1), (2, 1), (2, 2), (40, 10))
    for p in (8, 100)
]


CONSTANTS = "token", "weight", "memory", "byte", "task", "start"


def test_the_fit_recovers_planted_constants_and_none_is_negative(rng):
    found = fitted([one._replace(seconds=COST.seconds(one)) for one in PASSES])
    for name in CONSTANTS:
        assert math.isclose(getattr(found, name), getattr(COST, name), rel_tol=1e-6)
    found = fitted([one._replace(seconds=float(rng.uniform(0.1, 10))) for one in PASSES])
    assert min(getattr(found, name) for name in CONSTANTS) >= 0


def test_limits():
    """One worker and one partition send w once and add nothing; twice the workers halve the computing alone."""
    alone = COST.terms(Pass(1e6, 1e6, 1, 1))
    assert math.isclose(alone["computing"], 2.0) and math.isclose(alone["travelling"], 8e6 * 1e-9)
    assert alone["stragglers"] == 0.0
    two, four = (COST.terms(Pass(1e6, 1e6, w, 64)) for w in (2, 4))
    assert math.isclose(two["computing"], 2 * four["computing"]) and two["travelling"] < four["travelling"]
    assert math.isclose(sum(two.values()), COST.seconds(Pass(1e6, 1e6, 2, 64)))
    assert two["memory"] == four["memory"] == 2 * COST.terms(Pass(1e6, 1e6, 4, 64, machines=2))["memory"]


@pytest.mark.parametrize("spread", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("workers", [1, 2, 10, 1000])
def test_the_largest_of_many_times(workers, spread):
    """Against draws; for two workers E max = 2 Phi(spread / sqrt 2) in closed form."""
    rng = np.random.default_rng(workers)
    draws = np.exp(spread * rng.normal(size=(4000, workers)) - 0.5 * spread**2).max(axis=1)
    assert abs(largest(workers, spread) - draws.mean()) <= 5 * draws.std() / np.sqrt(len(draws)) + 1e-12
    if workers == 2:
        assert math.isclose(largest(2, spread), 1 + math.erf(spread / 2), rel_tol=1e-9)


def test_wrong_measurements_are_named():
    with pytest.raises(ValueError, match="^measured: expected at least 6 passes, got 2"):
        fitted(PASSES[:2])
    with pytest.raises(ValueError, match="^measured: expected seconds > 0, got nan"):
        fitted(PASSES)


# the client -----------------------------------------------------------------------------------------------------------

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

    def submit(self, task: Callable[..., Any], *arguments: Any, workers: tuple[Any, ...] = (None,), **_: Any) -> Future:
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
