"""Two worker processes beside two processes that have nothing to do with one another, and beside one worker.

``python docs/figures.py workers --chunks conll2000.zip`` prints the figures on CoNLL-2000, repeated ten times:
`figures`. The suite uses made-up sentences. Both sides take turns in one run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any

import numpy as np

import accelerated
from benchmarks.taggers import Line, made_up
from diptych.distributed import Partitioned, cocoa, column_parts, local_client, tagging_model
from diptych.experiments.out_of_core import written
from diptych.files.columns import load_columns

COPIES, TURNS, ROUNDS = 10, 5, 4
_KEPT: dict[str, Any] = {}  # of an independent process: its objective


def objective(files: Sequence[str], executor: Any = None, parts: int = 1) -> Partitioned:
    """The log loss over column files, each in so many parts, with the pairs of the first."""
    model = tagging_model(accelerated, column_parts(files[:1]), "chunks")
    return Partitioned(column_parts(files, parts), model, accelerated.LogLoss, executor)


def gradients(loss: Partitioned) -> float:
    """Seconds of a gradient."""
    started, w = time.perf_counter(), loss.zeros()
    for k in range(3):
        loss.value_and_gradient(w + 1e-3 * k)  # other weights each time, which have to be sent
    return (time.perf_counter() - started) / 3


def rounds(loss: Partitioned) -> float:
    """Seconds of a round of CoCoA."""
    history = cocoa(loss, lam=1 / loss.n, epochs=ROUNDS, tol=0.0, rng=0).history
    return float(np.mean(np.diff([row.seconds for row in history])))


def _prepare(files: Sequence[str]) -> None:
    _KEPT["loss"] = objective(files)


def _alone(measure: Callable[[Partitioned], float], start: float) -> float:
    time.sleep(max(0.0, start - time.time()))
    return measure(_KEPT["loss"])


def beside(files: Sequence[str], measures: Sequence[Callable[[Partitioned], float]], turns: int) -> list[float]:
    """For each measure: the throughput of two workers as a share of that of two independent processes, each of which
    has half of the files; the median over turns.
    """
    os.environ["DIPTYCH_NUM_THREADS"] = "1"
    half = len(files) // 2
    with ExitStack() as stack:
        alone = [stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for _ in range(2)]
        for ready in [
            pool.submit(_prepare, part) for pool, part in zip(alone, (files[:half], files[half:]), strict=True)
        ]:
            ready.result()
        loss = objective(files, stack.enter_context(local_client(2)))
        shares: list[list[float]] = [[] for _ in measures]
        for turn in range(turns + 1):
            for measure, found in zip(measures, shares, strict=True):
                start = time.time() + 0.2
                independent = max(each.result() for each in [pool.submit(_alone, measure, start) for pool in alone])
                together = measure(loss)
                if turn:  # the first loads and compiles
                    found.append(independent / together)
    return [float(np.median(found)) for found in shares]


def to_a_gap(files: Sequence[str], turns: int) -> tuple[float, float, int]:
    """Seconds of CoCoA to a relative gap of 1e-3 by one worker and by two (medians), on four partitions; rounds."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    n = 0
    for workers in turns * (1, 2):
        with local_client(workers) as client:
            loss = objective(files, client, parts=4)
            loss.value(loss.zeros())
            started = time.perf_counter()
            result = cocoa(loss, lam=2 / loss.n, tol=1e-3, epochs=400, rng=0)
            seconds[workers].append(time.perf_counter() - started)
            n = result.nit
    return float(np.median(seconds[1])), float(np.median(seconds[2])), n


def figures(archive: str | None) -> Iterator[tuple[*Line, bool]]:
    """Name, value, unit, target and whether it is the least, of each figure; nothing without conll2000.zip."""
    if archive is None:
        print("  workers: --chunks names no conll2000.zip", file=sys.stderr)
        return
    training = load_columns(f"{archive}:train.txt")
    with tempfile.TemporaryDirectory() as folder:
        files = written(training, folder, COPIES)
        gradient, round_of_cocoa = beside(files, (gradients, rounds), TURNS)
        yield "two workers / two independent processes, gradients", gradient, "of the throughput", 0.85, True
        yield (
            "two workers / two independent processes, rounds of CoCoA",
            round_of_cocoa,
            "of the throughput",
            0.85,
            True,
        )
        one, two, n = to_a_gap(files[:1], 2)
        yield "CoCoA to a gap of 1e-3 by one worker", one, "s", None, False
        yield "CoCoA to a gap of 1e-3 by two workers / by one", two / one, "ratio", 0.65, False
        yield "CoCoA to a gap of 1e-3, rounds", n, "rounds", None, False


class TwoWorkers:
    """On made-up sentences. Skipped without Dask."""

    unit = "share of the throughput of two independent processes"
    timeout = 300.0

    def setup_cache(self) -> tuple[float, float]:
        """Both shares."""
        try:
            with tempfile.TemporaryDirectory() as folder:
                gradient, one_round = beside(written(made_up(1500), folder, 4), (gradients, rounds), 2)
        except ImportError:
            return float("nan"), float("nan")
        return gradient, one_round

    def track_gradients(self, shares: tuple[float, float]) -> float:
        """Gradients."""
        return shares[0]

    def track_rounds_of_cocoa(self, shares: tuple[float, float]) -> float:
        """Rounds of CoCoA on the log loss."""
        return shares[1]
