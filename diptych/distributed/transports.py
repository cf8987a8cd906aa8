"""How tasks reach workers: in this process, through an executor of ``concurrent.futures``, or through Dask.

Each transport sends an object once. Tasks then carry a reference to it. The tasks' results are added in a fixed tree.
"""

from __future__ import annotations

import os
import pickle
import queue
import shutil
import tempfile
import time
import uuid
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from diptych.distributed.partitions import nbytes_of
from reference.training.run import Lost

Task = Callable[..., Any]
Objects = tuple[Any, ...]
GONE = (OSError, ValueError, AttributeError)  # what a client raises whose scheduler is gone


class WorkersLost(Lost):
    """Workers ended and the executor cannot replace them, or the scheduler is gone. A run ends as after Ctrl-C."""


class TreeSum:
    """The sum of n results in a fixed tree, independent of the order in which they arrive.

    Results 2j and 2j + 1 are added, then these sums in the same way. If a level has an odd number of sums, its last one
    moves up unchanged. Two neighbours are added as soon as both have arrived, so that few results are held.
    """

    def __init__(self, n: int) -> None:
        self._widths = [n]
        while self._widths[-1] > 1:
            self._widths.append(-(-self._widths[-1] // 2))
        self._held: dict[tuple[int, int], Any] = {}

    def add(self, k: int, result: Any) -> None:
        """Add result k."""
        for level, width in enumerate(self._widths[:-1]):
            sibling = k ^ 1
            if sibling < width:
                if (level, sibling) not in self._held:
                    self._held[level, k] = result
                    return
                other = self._held.pop((level, sibling))
                result = result + other if k < sibling else other + result
            k //= 2
        self._held[len(self._widths) - 1, 0] = result

    @property
    def total(self) -> Any:
        """The sum of all results."""
        return self._held[len(self._widths) - 1, 0]


TOGETHER = 8  # neighbours that one task adds; a power of 2 gives the same tree as :class:`TreeSum`


def tree_sum(*results: Any) -> Any:
    """The sum of the results in the tree of :class:`TreeSum`."""
    tree = TreeSum(len(results))
    for k, result in enumerate(results):
        tree.add(k, result)
    return tree.total


class Transport(ABC):
    """Runs tasks ``task(*references' objects, k, *rest)`` for numbers k.

    counted: bytes of arrays that this process sent to others, or received.
    """

    counted = 0
    executor: Any = None

    @property
    def moved(self) -> int:
        """Bytes sent from one process to another so far."""
        return self.counted

    @property
    def repeated(self) -> int:
        """Tasks that ran again after workers were lost."""
        return 0

    @property
    def lost(self) -> int:
        """Workers that ended so far."""
        return 0

    @abstractmethod
    def send(self, thing: Any) -> Any:
        """A reference to an object, for the methods below. The object is sent once to each worker."""

    @abstractmethod
    def results(self, task: Task, ks: Iterable[int], references: Objects, rest: Objects) -> Iterable[Any]:
        """Pairs of k and the result, in the order of arrival."""

    def anywhere(self, task: Task, n: int, *references: Any) -> Iterable[Any]:
        """Pairs of k < n and the result, in the order of arrival. Each task runs on any free worker."""
        return self.results(task, range(n), references, ())

    def one(self, task: Task, k: int, *references: Any, rest: Objects = ()) -> Any:
        """The result for k."""
        ((_, result),) = self.results(task, [k], references, rest)
        return result

    def each(self, task: Task, n: int, *references: Any, rest: Objects = ()) -> list[Any]:
        """The results for k = 0, ..., n - 1, in this order."""
        results = dict(self.results(task, range(n), references, rest))
        return [results[k] for k in range(n)]

    def reduce(self, task: Task, n: int, *references: Any, rest: Objects = ()) -> Any:
        """The sum of the results, in the tree of :class:`TreeSum`."""
        tree = TreeSum(n)
        for k, result in self.results(task, range(n), references, rest):
            tree.add(k, result)
        return tree.total

    @property
    def workers(self) -> int:
        """The current number of workers."""
        return int(getattr(self.executor, "_max_workers", 1))

    def forget(self, reference: Any) -> None:  # noqa: B027, most transports do nothing
        """Release an object that is no longer needed."""

    @contextmanager
    def sent(self, *things: Any) -> Iterator[list[Any]]:
        """A context with references to objects, which are released at its end."""
        references = [self.send(thing) for thing in things]
        try:
            yield references
        finally:
            for reference in references:
                self.forget(reference)


class Here(Transport):
    """This process, one task after another, or threads of this process."""

    def __init__(self, executor: ThreadPoolExecutor | None = None) -> None:
        self.executor = executor

    def send(self, thing: Any) -> Any:
        return thing

    def results(self, task: Task, ks: Iterable[int], references: Objects, rest: Objects) -> Iterable[Any]:
        if self.executor is None:
            return ((k, task(*references, k, *rest)) for k in ks)
        futures = {self.executor.submit(task, *references, k, *rest): k for k in ks}
        return _completed(futures)


class InFile(NamedTuple):
    """An object in a file that the processes of one machine can read."""

    path: str


_READ: dict[str, Any] = {}  # the last objects that this process read from files
_MOST_READ = 4


def _with_files(task: Task, references: tuple[InFile, ...], k: int, rest: Objects) -> Any:
    things = []
    for reference in references:
        if reference.path not in _READ:
            _READ[reference.path] = pickle.loads(Path(reference.path).read_bytes())
            while len(_READ) > _MOST_READ:
                del _READ[next(iter(_READ))]
        things.append(_READ[reference.path])
    return task(*things, k, *rest)


class Processes(Transport):
    """An executor of processes of this machine. They read the objects that are sent from files."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.folder = tempfile.mkdtemp(prefix="diptych-")
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def send(self, thing: Any) -> InFile:
        path = os.path.join(self.folder, uuid.uuid4().hex)
        Path(path).write_bytes(pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL))
        self.counted += nbytes_of(thing) * self.workers
        return InFile(path)

    def forget(self, reference: InFile) -> None:
        Path(reference.path).unlink(missing_ok=True)

    def results(self, task: Task, ks: Iterable[int], references: Objects, rest: Objects) -> Iterable[Any]:
        try:
            futures = {self.executor.submit(_with_files, task, references, k, rest): k for k in ks}
            for k, result in _completed(futures):
                self.counted += nbytes_of(result)
                yield k, result
        except BrokenExecutor as problem:
            raise WorkersLost(
                f"a worker process ended, and {type(self.executor).__name__} cannot replace it; Dask can"
            ) from problem


def _completed(futures: dict[Any, int]) -> Iterable[tuple[int, Any]]:
    try:
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    finally:
        for future in futures:
            future.cancel()


class Dask(Transport):
    """A Dask client. Tasks of a lost worker run again on another one, which calls their loaders again."""

    tries = 5  # give up after all tasks were lost with their workers this many times in a row
    poll = 1.0  # seconds between two checks of the connection to the scheduler
    patience = 300.0  # give up after so many seconds without any worker

    def __init__(self, client: Any) -> None:
        from diptych.distributed import repeats

        self.client, self._address = client, client.scheduler.address
        if client.run_on_scheduler(repeats.count) is None:
            client.register_plugin(repeats.Repeats())
        self._before = self._ran_again = client.run_on_scheduler(repeats.count)
        self._sent_again, self._workers = 0, 0
        self._lost_before = self._lost = client.run_on_scheduler(repeats.lost)
        self._gave: dict[str, int] = client.run(_given, on_error="ignore")  # bytes each worker sent to others
        self._gave_before = sum(self._gave.values())
        self._things: dict[str, Any] = {}  # the objects that were sent, by name
        self._futures: dict[str, Any] = {}
        self._homes: dict[int, str] = {}  # the worker of each number k

    def send(self, thing: Any) -> str:
        name = uuid.uuid4().hex
        self._things[name] = thing
        self.counted += nbytes_of(thing)  # once, because workers copy it from one another
        return name

    @property
    def workers(self) -> int:
        with suppress(WorkersLost):
            self._workers = len(self._threads()) or self._workers
        return self._workers

    def _threads(self) -> dict[str, int]:
        """The number of threads of each worker. Raises WorkersLost if the scheduler is gone."""
        try:
            threads: dict[str, int] = self.client.nthreads()
            return threads
        except (OSError, RuntimeError, AttributeError) as problem:  # Dask raises any of these
            self._check_connected(problem)
            return {}

    def _check_connected(self, problem: BaseException) -> None:
        """Raises WorkersLost if the scheduler is gone."""
        if self.client.status in ("closing", "closed"):
            raise WorkersLost(f"the scheduler at {self._address} is gone") from problem

    @property
    def moved(self) -> int:
        """Bytes that this process sent, and that workers sent to it and to one another."""
        with suppress(*GONE):
            self._gave.update(self.client.run(_given, on_error="ignore"))
        return int(self.counted + sum(self._gave.values()) - self._gave_before)

    def forget(self, reference: str) -> None:
        self._things.pop(reference, None)
        self._futures.pop(reference, None)

    @property
    def repeated(self) -> int:
        """The number of tasks that ran again or were sent again because their workers were lost."""
        from diptych.distributed import repeats

        with suppress(*GONE):
            self._ran_again = self.client.run_on_scheduler(repeats.count)
        return int(self._ran_again - self._before + self._sent_again)

    @property
    def lost(self) -> int:
        """The number of workers that have ended since this object was made."""
        from diptych.distributed import repeats

        with suppress(*GONE):
            self._lost = self.client.run_on_scheduler(repeats.lost)
        return int(self._lost - self._lost_before)

    def _future(self, name: str) -> Any:
        """The object as the result of a task. Scattered data would be lost with their worker.

        Workers copy the result from one another. The scheduler keeps the task. If all workers that have the result are
        lost, the scheduler runs the task again.
        """
        if name not in self._futures or self._futures[name].status in ("cancelled", "lost", "error"):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
                self._futures[name] = self.client.submit(_same, self._things[name], pure=False)
        return self._futures[name]

    def results(self, task: Task, ks: Iterable[int], references: Objects, rest: Objects) -> Iterable[Any]:
        return self._answers(lambda sent, missing: self._at_home(task, sent, missing, rest), ks, references)

    def anywhere(self, task: Task, n: int, *references: Any) -> Iterable[Any]:
        def submitted(sent: list[Any], missing: list[int]) -> list[Any]:
            return [self.client.submit(task, *sent, k, pure=False) for k in missing]

        return self._answers(submitted, range(n), references)

    def _at_home(self, task: Task, sent: list[Any], ks: Iterable[int], rest: Objects) -> list[Any]:
        """A future for each k, on its worker."""
        self._settle(ks)
        options = [{"workers": [self._homes[k]], "allow_other_workers": True} if k in self._homes else {} for k in ks]
        return [self.client.submit(task, *sent, k, *rest, pure=False, **o) for k, o in zip(ks, options, strict=True)]

    def _settle(self, ks: Iterable[int]) -> None:
        """Assign each k to a worker, evenly. It stays there while the worker runs, so that no other has to read its
        partition.
        """
        threads, keys = self._threads(), sorted({*self._homes, *ks})
        most = -(-len(keys) // max(1, sum(threads.values())))
        room = {worker: most * threads[worker] for worker in sorted(threads)}
        moving = []
        for k in keys:
            if room.get(self._homes.get(k, ""), 0) > 0:
                room[self._homes[k]] -= 1
            else:
                moving.append(k)
        self._homes.update(zip(moving, (worker for worker in room for _ in range(room[worker])), strict=False))

    def reduce(self, task: Task, n: int, *references: Any, rest: Objects = ()) -> Any:
        """The sum of the results. The workers add, so that only one result comes back for any n."""

        def tree(sent: list[Any], _: list[int]) -> list[Any]:
            sums = self._at_home(task, sent, range(n), rest)
            while len(sums) > 1:
                groups = [sums[i : i + TOGETHER] for i in range(0, len(sums), TOGETHER)]
                sums = [
                    self.client.submit(tree_sum, *each, pure=False) if len(each) > 1 else each[0] for each in groups
                ]
            return sums

        ((_, total),) = self._answers(tree, [0], references)
        return total

    def _answers(
        self, make: Callable[[list[Any], list[int]], list[Any]], ks: Iterable[int], references: Objects
    ) -> Iterable[Any]:
        """Pairs of k and the result, in the order of arrival; ``make`` makes the futures of sent objects and ks."""
        missing = set(ks)
        n, fruitless = len(missing), 0
        while missing:
            try:
                sent = [self._future(name) for name in references]
                futures = dict(zip(make(sent, sorted(missing)), sorted(missing), strict=True))
            except Exception as problem:  # Dask raises errors of several types
                self._check_connected(problem)
                raise
            lost: BaseException | None = None
            before = len(missing)
            for future in self._completed(futures):
                if _is_loss(future):
                    lost = future.exception() if future.status == "error" else None
                    continue
                try:
                    result = future.result()  # or raises the error of the task
                except CancelledError as problem:  # the finished result was lost
                    lost = problem
                    continue
                future.release()  # so that it is not repeated if its worker is lost now
                missing.discard(futures[future])
                yield futures[future], result
            fruitless = fruitless + 1 if len(missing) == before else 0
            if fruitless == self.tries:
                raise WorkersLost(
                    f"{len(missing)} of {n} tasks were lost with their workers {self.tries} times"
                ) from lost
            self._sent_again += len(missing)
            if missing:
                for name in references:
                    self._futures.pop(name, None)

    def _completed(self, futures: Iterable[Any]) -> Iterable[Any]:
        """The futures, in the order in which they end.

        Raises
        ------
        WorkersLost
            The scheduler is gone, or there has been no worker for too long.
        """
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waiting, alive = list(futures), time.monotonic()
        for future in waiting:
            future.add_done_callback(ended.put)
        for _ in waiting:
            while True:
                try:
                    future = ended.get(timeout=self.poll)
                    break
                except queue.Empty as problem:
                    self._check_connected(problem)
                    alive = time.monotonic() if self._threads() else alive
                    if time.monotonic() - alive > self.patience:
                        raise WorkersLost(f"there has been no worker for {self.patience:.0f} seconds") from None
            alive = time.monotonic()
            yield future


def _same(thing: Any) -> Any:
    return thing


def _given(dask_worker: Any) -> int:
    return int(dask_worker.transfer_outgoing_bytes_total)


def _is_loss(future: Any) -> bool:
    """Whether a future ended because its worker was lost, not because of its task."""
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        return True
    return isinstance(future.exception(), KilledWorker)


def transport_of(executor: Any) -> Transport:
    """The transport for an executor; None: this process.

    Raises
    ------
    TypeError
        ``executor`` is neither an executor nor a client of Dask.
    """
    if executor is None or isinstance(executor, ThreadPoolExecutor):
        return Here(executor)
    client = getattr(executor, "_client", executor)  # of client.get_executor()
    if hasattr(client, "run_on_scheduler") and hasattr(client, "submit"):
        return Dask(client)
    if isinstance(executor, Executor):
        return Processes(executor)
    raise TypeError(
        f"executor: expected None, an executor of concurrent.futures or a client of Dask, got {type(executor).__name__}"
    )
