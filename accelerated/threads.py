"""Kernels on several cores: fixed ranges of examples, handed to a pool of threads for the length of one call.

The ranges depend on the data alone, each has its own accumulators, and these are added in order: results are bit-equal
for any number of threads. (A pool of our own rather than numba's parallel loops: those abort the process when two
threads enter them, or after a fork.)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, TypeVar

import numpy as np

__all__ = ["get_num_threads", "in_parallel", "ranges", "set_num_threads", "summed_in_parallel"]

Sums = TypeVar("Sums", bound=tuple[np.ndarray, ...])

_MAX_RANGES = 8
_threads: int | None = None


def get_num_threads() -> int:
    """The number of threads for kernels over many examples: as set, else DIPTYCH_NUM_THREADS, else the cores of this
    process.
    """
    if _threads is not None:
        return _threads
    given = os.environ.get("DIPTYCH_NUM_THREADS")
    if given is not None:
        if not given.isdigit() or int(given) < 1:
            raise ValueError(f"DIPTYCH_NUM_THREADS: expected an integer >= 1, got {given!r}")
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_num_threads(n: int | None) -> None:
    """Use n threads from now on; None restores the default."""
    global _threads
    if n is not None and n < 1:
        raise ValueError(f"n: expected an integer >= 1 or None, got {n}")
    _threads = n


def ranges(offsets: np.ndarray, most: int = _MAX_RANGES, at_least: int = 512) -> list[tuple[int, int]]:
    """Consecutive ranges of examples with about equal numbers of positions, each of at least ``at_least`` positions.

    ``offsets`` (n+1,) are the examples' first positions. The ranges depend on the arguments only.
    """
    n, total = len(offsets) - 1, int(offsets[-1] - offsets[0]) + len(offsets) - 1
    pieces = max(1, min(most, total // at_least))
    work = np.asarray(offsets) - offsets[0] + np.arange(n + 1)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(work, total * np.arange(1, pieces) / pieces), [n]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


def in_parallel(
    work: Callable[[int, int], Any], pieces: list[tuple[int, int]], threads: int | None = None
) -> list[Any]:
    """``[work(lo, hi) for lo, hi in pieces]``, on several threads (:func:`get_num_threads`) if there are several
    pieces.
    """
    threads = 1 if len(pieces) == 1 else min(threads or get_num_threads(), len(pieces))
    if threads <= 1:
        return [work(lo, hi) for lo, hi in pieces]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda piece: work(*piece), pieces))


def summed_in_parallel(
    work: Callable[[int, int, Sums], Any], pieces: list[tuple[int, int]], zeros: Callable[[], Sums]
) -> tuple[list[Any], Sums]:
    """``[work(lo, hi, sums) for lo, hi in pieces]``, and the sums. Each piece adds to sums of its own, which begin as
    ``zeros()``; these are added in the order of the pieces. There are as many at a time as threads.
    """
    spare: list[Sums] = []
    total, added = zeros(), [Event() for _ in pieces]

    def run(lo: int, hi: int) -> Any:
        k = pieces.index((lo, hi))
        try:
            if k == 0:
                return work(lo, hi, total)
            try:
                sums = spare.pop()
            except IndexError:
                sums = zeros()
            result = work(lo, hi, sums)
            added[k - 1].wait()
            for whole, part in zip(total, sums, strict=True):
                whole += part
                part[:] = 0.0
            spare.append(sums)
            return result
        finally:
            added[k].set()

    return in_parallel(run, pieces), total
