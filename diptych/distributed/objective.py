"""An objective whose examples lie in partitions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diptych.distributed.loaders import Loader
from diptych.distributed.partitions import Job, Size, Sums, measured, summed
from diptych.distributed.transports import transport_of
from reference.arrays import Array, floats
from reference.models.base import integer
from reference.objectives import Linearization
from reference.structures.base import UnsupportedError

SHOWN = 8  # partitions whose size a record names


class Partitioned:
    """The mean of the losses of all examples, which lie in partitions.

    Parameters
    ----------
    loaders : sequence of callables
        A worker calls each without arguments, perhaps more than once. The result is X and Y of a partition for
        ``model.pack``, or the packed data of a partition (:class:`PackedFolder`). Loaders are sent to workers, so they
        must be picklable.
    model : model
        A model with NumPy weights.
    loss : callable
        Makes an objective from the model and a partition's packed data: ``sp.LogLoss``, ``sp.StructuralHinge`` or
        ``functools.partial(sp.StructuralHinge, smoothing=...)``. The panel of this class does the computation.
    executor : executor or client, optional
        ``concurrent.futures`` threads or processes, a ``distributed.Client``, or its ``get_executor()``. Default: this
        process, one partition after another.
    memory : int, optional
        Maximum bytes of packed partitions that a process keeps in memory. The others are read again
        from files of the process.

    Attributes
    ----------
    n : int
        Number of examples.
    sizes : list of Size
        Examples and bytes of each partition that has examples. Empty partitions are left out.

    Raises
    ------
    TypeError, ValueError
        There are no loaders or no examples; the executor is of another kind; a loader fails (its error names file and
        line).
    MemoryError
        One packed partition alone exceeds ``memory``.
    WorkersLost
        Workers ended, and the executor does not replace them.

    Notes
    -----
    One task sums a partition, and sums are added in a fixed tree. So values and gradients have the same bits for any
    number of workers, if the processors are of one kind. Weights are sent to each worker once per evaluation.

    Examples
    --------
    >>> import numpy as np, reference as sp
    >>> def words(): return [np.eye(2), np.eye(2)[:1]], [[0, 1], [0]]
    >>> model = sp.SequenceModel(2, 2)
    >>> objective = Partitioned([words, words], model, sp.LogLoss)
    >>> objective.n
    4
    >>> whole = sp.LogLoss(model, model.pack(*[2 * each for each in words()]))
    >>> abs(sp.lbfgs(objective, lam=0.1).fun - sp.lbfgs(whole, lam=0.1).fun) < 1e-9
    True
    """

    def __init__(
        self,
        loaders: Sequence[Loader],
        model: Any,
        loss: Callable[[Any, Any], Any],
        executor: Any = None,
        *,
        memory: int | None = None,
    ) -> None:
        if len(loaders) == 0 or not all(map(callable, loaders)):
            raise TypeError(f"loaders: expected at least one callable, got {list(loaders)[:3]}")
        if not callable(loss):
            raise TypeError(f"loss: expected a callable such as LogLoss, got {loss!r}")
        if memory is not None:
            integer("memory", memory, 1)
        self.model, self.memory, self.transport = model, memory, transport_of(executor)
        self.kind: Any = getattr(loss, "func", loss)
        self.mu: float = self.kind.mu
        told = getattr(loss, "keywords", {})
        self.loss_augmented: bool = told.get("cost", self.kind.loss_augmented)
        self.smoothing = told.get("smoothing")
        self._last: tuple[Any, Any] = None, None  # the last weights sent, and the reference to them
        job = Job(uuid.uuid4().hex, tuple(loaders), model, loss, memory)
        self._job = self.transport.send(job)
        self.sizes: list[Size] = self.transport.each(measured, len(loaders), self._job)
        self.n = sum(size.n for size in self.sizes)
        if self.n == 0:
            raise ValueError(f"loaders: expected at least one example, got none in {len(loaders)} partitions")
        full = [k for k, size in enumerate(self.sizes) if size.n > 0]
        if len(full) < len(loaders):  # partitions without examples are left out
            self.transport.forget(self._job)
            job = job._replace(name=uuid.uuid4().hex, loaders=tuple(loaders[k] for k in full))
            self._job, self.sizes = self.transport.send(job), [self.sizes[k] for k in full]

    @property
    def nonnegative(self) -> slice | None:
        """The weights that must be >= 0; None: all are free."""
        return getattr(self.model, "nonnegative", None)

    @property
    def unknown(self) -> int:
        """The number of positions whose labels are not known."""
        return sum(size.unknown for size in self.sizes)

    @property
    def partitions(self) -> str:
        """Their number and the examples of each, as checkpoints and model files record them."""
        counts = ", ".join(str(size.n) for size in self.sizes[:SHOWN])
        return f"{len(self.sizes)} of {counts}{', ...' if len(self.sizes) > SHOWN else ''} examples"

    @property
    def repeated(self) -> int:
        """The number of tasks that ran again because their workers were lost."""
        return self.transport.repeated

    @property
    def moved(self) -> int:
        """Bytes of arrays sent to workers or received from them so far."""
        return self.transport.moved

    def zeros(self) -> np.ndarray:
        """Weights of zero (d,)."""
        return np.zeros(self.model.size)

    def value(self, w: Array, batch: Any = None, mu: float | None = None) -> float:
        """The value of :meth:`value_and_gradient` alone."""
        return self._sums(w, batch, "value", mu).value / self.n

    def value_and_gradient(self, w: Array, batch: Any = None, mu: float | None = None) -> tuple[float, np.ndarray]:
        """The mean of the losses over all examples, and its gradient (d,).

        Raises
        ------
        UnsupportedError
            A batch is given; a partitioned objective evaluates all examples.
        ValueError, TypeError, InfeasibleError
            As :meth:`reference.StructuralHinge.value_and_gradient`.
        """
        sums = self._sums(w, batch, "gradient", mu)
        return sums.value / self.n, sums.gradient / self.n

    def linearize(self, w: Array, batch: Any = None, mu: float | None = None) -> Linearization:
        """As :meth:`reference.StructuralHinge.linearize`, over all examples."""
        sums = self._sums(w, batch, "linearize", mu)
        return Linearization(sums.value / self.n, sums.gradient / self.n, sums.task_loss / self.n, sums.exact / self.n)

    def smoothness(self, mu: float | None = None) -> float | None:
        """As :meth:`reference.StructuralHinge.smoothness`: the largest of all partitions."""
        mu = self.mu if mu is None else mu
        bounds = [size.smoothness for size in self.sizes if size.smoothness is not None]
        return None if mu == 0 or len(bounds) < len(self.sizes) else max(bounds) / mu

    def local_smoothness(self, mu: float | None = None) -> float:
        """As :meth:`reference.StructuralHinge.local_smoothness`: the largest of all partitions."""
        mu = self.mu if mu is None else mu
        return np.inf if mu == 0 else max(size.local_smoothness for size in self.sizes) / mu

    def width(self) -> float:
        """D such that smoothing at mu changes any example's loss by at most mu D."""
        return max(size.width for size in self.sizes)

    def parts(self, examples: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Examples by partition: pairs of a partition's number and the numbers of its examples within the partition.

        Partitions are in the order of their first example in ``examples``.
        """
        ends = np.cumsum([size.n for size in self.sizes])
        partition = np.searchsorted(ends, examples, side="right")
        met = partition[np.sort(np.unique(partition, return_index=True)[1])]
        return [(k, examples[partition == k] - ends[k] + self.sizes[k].n) for k in met.tolist()]

    def ask(self, task: Callable[..., Any], k: int, w: np.ndarray, *rest: Any) -> Any:
        """The result of ``task(job, w, k, *rest)`` on one partition. w is sent to the worker that runs the task."""
        return self.transport.one(task, k, self._job, self._sent(w), rest=rest)

    def ask_all(self, task: Callable[..., Any], thing: Any) -> list[Any]:
        """The results of ``task(job, thing, k)`` on all partitions. ``thing`` is sent once to each worker."""
        with self.transport.sent(thing) as references:
            return self.transport.each(task, len(self.sizes), self._job, *references)

    def sum_of(self, task: Callable[..., Any], w: np.ndarray, *things: Any) -> Any:
        """The sum of ``task(job, w, *things, k)`` over partitions, in a fixed tree."""
        with self.transport.sent(*things) as references:
            return self.transport.reduce(task, len(self.sizes), self._job, self._sent(w), *references)

    def _sent(self, w: np.ndarray) -> Any:
        """A reference to the weights. Weights with the same bits as the last ones are not sent again."""
        last, reference = self._last
        if last is None or last.tobytes() != w.tobytes():
            if last is not None:
                self.transport.forget(reference)
            last = w.copy()  # the caller may change w in place
            reference = self.transport.send(last)
            self._last = last, reference
        return reference

    def _sums(self, w: Array, batch: Any, question: str, mu: float | None) -> Sums:
        if batch is not None:
            raise UnsupportedError("batch: Partitioned evaluates all examples at once, got a batch")
        (w,) = floats(w=w)
        if not isinstance(w, np.ndarray) or w.shape != (self.model.size,):
            raise ValueError(f"w: expected a NumPy array of {self.model.size} weights, got shape {tuple(w.shape)}")
        rest = question, mu
        sums: Sums = self.transport.reduce(summed, len(self.sizes), self._job, self._sent(w), rest=rest)
        return sums
