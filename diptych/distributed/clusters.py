"""Clusters of worker processes of this machine."""

from __future__ import annotations

import importlib
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

# Dask closes the place of a lost worker for good if the place is empty after this time. It may be empty because the
# worker was replaced and its successor was lost, too.
CHECK = {"distributed.deploy.lost-worker-timeout": "1 day"}

# Dask's default also sets MALLOC_TRIM_THRESHOLD_. The memory of weight vectors would then be returned to the system
# after each use and requested again, which takes a tenth of a gradient's time.
ENVIRONMENT = {"OMP_NUM_THREADS": 1, "MKL_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, "DIPTYCH_NUM_THREADS": 1}


@contextmanager
def local_client(workers: int) -> Iterator[Any]:
    """A ``distributed.Client`` with worker processes of one thread each, which end when the client is closed.

    No other machine can reach the workers. They block Ctrl-C, and SIGTERM, which Slurm sends to all processes, so that
    only this process receives the signal. They print no logs, because errors of tasks are raised in this process.
    Results come directly from the workers. A worker that is lost is replaced, also if it is lost again soon.

    Parameters
    ----------
    workers : int >= 1

    Raises
    ------
    ImportError
        Dask is not installed (extra ``distributed``).

    Examples
    --------
    >>> with local_client(4) as client:  # doctest: +SKIP
    ...     objective = Partitioned(loaders, model, sp.LogLoss, client)
    """
    dask, distributed = importlib.import_module("dask"), importlib.import_module("distributed")
    how = {"processes": True, "threads_per_worker": 1, "dashboard_address": "localhost:0"}
    with _blocking_interrupts(), dask.config.set({"distributed.nanny.pre-spawn-environ": ENVIRONMENT}):
        cluster = distributed.LocalCluster(n_workers=workers, silence_logs=logging.CRITICAL, **how)
    with dask.config.set(CHECK), cluster, distributed.Client(cluster, direct_to_workers=True) as client:
        yield client


@contextmanager
def _blocking_interrupts() -> Iterator[None]:
    """Threads and processes that start in this block ignore Ctrl-C and SIGTERM. This process gets a signal of the block
    at its end.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # if it started later, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
