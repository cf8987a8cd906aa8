"""The tasks of a worker: it keeps packed partitions within a memory limit, and sums losses over one at a time."""

from __future__ import annotations

import dataclasses
import os
import pickle
import shutil
import sys
import tempfile
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diptych.distributed.loaders import Loader
from diptych.files.sources import named
from reference.packed import Packed


class Job(NamedTuple):
    """The arguments that all tasks of an objective share. They are sent once to each worker.

    name: unique to the objective. loss: makes an objective from model and packed data. memory: maximum bytes of packed
    partitions that a process keeps; None: no limit.
    """

    name: str
    loaders: tuple[Loader, ...]
    model: Any
    loss: Callable[[Any, Any], Any]
    memory: int | None


class Size(NamedTuple):
    """A partition: number of examples, bytes when packed, and constants of its loss."""

    n: int
    nbytes: int
    width: float
    smoothness: float | None  # at mu = 1, None where unknown
    local_smoothness: float  # at mu = 1, inf where unknown
    unknown: int = 0  # positions whose labels are not known


class Sums(NamedTuple):
    """Sums over the examples of a partition: losses, gradients (d,) (or None), task losses, exact calls."""

    value: float
    gradient: Any
    task_loss: float
    exact: float

    def __add__(self, other: Any) -> Sums:
        gradient = None if self.gradient is None else self.gradient + other.gradient
        return Sums(self.value + other.value, gradient, self.task_loss + other.task_loss, self.exact + other.exact)


class _Kept(NamedTuple):
    objective: Any
    nbytes: int


_KEPT: OrderedDict[tuple[str, int], _Kept] = OrderedDict()  # of this process, least recently used first
_LOCK = threading.Lock()


def objective_of(job: Job, k: int) -> _Kept:
    """The loss over partition k, or None without examples. It is loaded and packed unless this process has kept it.

    Raises
    ------
    MemoryError
        The packed partition alone exceeds the limit. The message says in how many parts it would fit.
    """
    with _LOCK:
        if (job.name, k) in _KEPT:
            _KEPT.move_to_end((job.name, k))
            return _KEPT[job.name, k]
    data = _packed(job, k)
    nbytes = nbytes_of(data)
    if job.memory is not None and nbytes > job.memory:
        raise MemoryError(
            f"partition {k} ({job.loaders[k]}) takes {nbytes:,} bytes when packed, the limit is {job.memory:,}: split "
            f"it into at least {-(-nbytes // job.memory)} partitions"
        )
    kept = _Kept(job.loss(job.model, data) if data.n else None, nbytes)
    with _LOCK:
        _KEPT[job.name, k] = kept
        while job.memory is not None and sum(each.nbytes for each in _KEPT.values()) > job.memory:
            _KEPT.popitem(last=False)
    return kept


def _packed(job: Job, k: int) -> Any:
    """The packed data of partition k: from its loader, packed here unless the loader gives packed data.

    With a memory limit data packed here are also saved in a file of this process, which can be read faster than the
    loader's file.
    """
    path = None if job.memory is None else Path(_folder()) / f"{job.name}-{k}"
    if path is not None and path.exists():
        return pickle.loads(path.read_bytes())
    loaded = job.loaders[k]()
    if isinstance(loaded, Packed):
        return loaded
    with named(loaded[0]):
        data = job.model.pack(*loaded)
    if path is not None:
        part = path.with_suffix(f".{uuid.uuid4().hex}")  # another thread may write the same file
        part.write_bytes(pickle.dumps(data, protocol=pickle.HIGHEST_PROTOCOL))
        os.replace(part, path)
    return data


@cache
def _folder() -> str:
    """A folder of this process, removed when it ends. That of a Dask worker lies within the worker's own folder."""
    base = None
    if sys.modules.get("distributed") is not None:
        with suppress(ValueError):  # not in a worker
            base = sys.modules["distributed"].get_worker().local_directory
    folder = tempfile.mkdtemp(prefix="diptych-", dir=base)
    Finalize(None, shutil.rmtree, (folder, True), exitpriority=0)
    return folder


def measured(job: Job, k: int) -> Size:
    """The size of partition k."""
    objective, nbytes = objective_of(job, k)
    if objective is None:
        return Size(0, nbytes, 0.0, None, 0.0)
    bounds = objective.width(), objective.smoothness(1.0), objective.local_smoothness(1.0)
    return Size(objective.n, nbytes, *bounds, getattr(objective, "unknown", 0))


def summed(job: Job, w: np.ndarray, k: int, question: str, mu: float | None) -> Sums:
    """The sums over partition k at weights w (d,). question: "value", "gradient" or "linearize"."""
    objective, _ = objective_of(job, k)
    n = objective.n
    if question == "value":
        return Sums(n * objective.value(w, None, mu), None, 0.0, 0.0)
    if question == "gradient":
        value, gradient = objective.value_and_gradient(w, None, mu)
        gradient *= n  # in place, to need no second vector
        return Sums(n * value, gradient, 0.0, 0.0)
    value, gradient, task_loss, exact = objective.linearize(w, None, mu)
    gradient *= n
    return Sums(n * value, gradient, n * task_loss, n * exact)


# bytes of the arrays in objects that are sent or kept ----------------------------------------------------------------


def nbytes_of(data: Any) -> int:
    """Bytes of the arrays in packed data."""
    if hasattr(data, "nbytes"):
        broadcast = getattr(data, "strides", None) == (0,)  # one number for all entries
        return int(data.itemsize if broadcast else data.nbytes)
    if dataclasses.is_dataclass(data):
        return sum(nbytes_of(getattr(data, field.name)) for field in dataclasses.fields(data))
    if isinstance(data, tuple | list):
        return sum(map(nbytes_of, data))
    return 0
