"""Training over partitions from the command line: workers of this machine, or a scheduler of Dask."""

from __future__ import annotations

import argparse
import importlib
import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType
from typing import Any

from diptych.commands.jobs import CASIMIR, Job, smoothing_of
from diptych.commands.options import FILE, count, positive
from diptych.commands.output import announce_compilation
from diptych.commands.parser import Parser
from diptych.distributed import Partitioned

__all__ = [
    "Rehearsal",
    "add_cluster",
    "asked",
    "check_over",
    "executor_of",
    "for_workers",
    "line_of",
    "loss_over",
    "moved",
    "parts_a_file",
]

SOLVERS = ("lbfgs", "cocoa", "svrg", *CASIMIR, "cutting-planes")  # what trains over partitions
LEAST_PARTS = 8  # the result depends on the parts, so their number does not depend on the workers
LOCAL = re.compile(r"(?:[a-z]+://)?(?:localhost|127\.[\d.]+|\[::1\])(?::|$)|inproc:")
UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def size(text: str) -> int:
    """The value of an option of type number of bytes, such as 500MB or 2GiB."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,6})?) ?([a-z]*)", text.strip().lower())
    value = 0 if found is None or found[2] not in UNITS else int(float(found[1]) * UNITS[found[2]])
    if value < 1000:
        raise argparse.ArgumentTypeError(
            f"expected a number of bytes such as 500MB or 2GiB (lbfgs's pairs are --corrections), got {text:.80}"
        )
    return value


def add_cluster(sub: Parser) -> None:
    """Add the options of training over partitions."""
    sub.option("workers", "--workers", type=count, metavar="N",
        help="train over partitions with N processes of this machine, or in this one (0)")  # fmt: skip
    sub.option("workers", "--scheduler", metavar="ADDRESS", rare=True,
        help="train over partitions on the workers of this scheduler of Dask")  # fmt: skip
    sub.option("workers", "--partitions", type=positive, metavar="P", rare=True,
        help=f"partitions in all, at least one a file; they decide the result (default: {LEAST_PARTS})")  # fmt: skip
    sub.option("workers", "--memory", type=size, metavar="BYTES", rare=True,
        help="packed partitions that a process keeps, such as 500MB; others are read again (default: all)")  # fmt: skip
    for name, what in {"ca-file": "authority's certificate", "cert": "certificate", "key": "private key"}.items():
        sub.option("workers", f"--tls-{name}", rare=True, help=f"TLS to the scheduler: {what}", **FILE)


NAMES = ("workers", "scheduler", "partitions", "memory", "tls_ca_file", "tls_cert", "tls_key")


def asked(options: argparse.Namespace) -> bool:
    """Whether the options ask for training over partitions."""
    return any(getattr(options, name) is not None for name in NAMES)


def for_workers(options: argparse.Namespace, paths: Sequence[str], *names: str) -> list[str]:
    """The files as workers find them, which may run in another folder. names: of data that the package has."""
    if "-" in paths:
        raise ValueError("-: standard input is not read over partitions; give a file")
    if options.scheduler is None:
        return list(paths)
    return [path if path in names else str(Path(path).absolute()) for path in paths]


def parts_a_file(options: argparse.Namespace, files: int) -> list[int]:
    """The parts of each file, which are ``--partitions`` in all, and at least one a file."""
    total = max(options.partitions or LEAST_PARTS, files)
    return [total * (k + 1) // files - total * k // files for k in range(files)]


@dataclass(frozen=True)
class Rehearsal:
    """A training on a few examples, which compiles what the training on all examples needs.

    run: trains with an objective; X, Y: examples, as ``model.pack`` takes them.
    """

    model: Any
    loss: Callable[[Any, Any], Any]
    run: Callable[[Any], Any]
    X: Any
    Y: Any

    def __call__(self) -> None:
        objective = Partitioned([self.examples], self.model, self.loss)
        self.run(objective)
        self.model.predict(self.model.pack(self.X), None, objective.zeros())

    def examples(self) -> tuple[Any, Any]:
        """The loader of the only partition."""
        return self.X, self.Y


@contextmanager
def executor_of(options: argparse.Namespace, panel: ModuleType, rehearsal: Rehearsal) -> Iterator[Any]:
    """The executor that the options ask for, None for this process.

    Kernels are compiled once on each machine, by a rehearsal on one of its workers while the others wait.

    Raises
    ------
    ValueError
        Options that contradict one another; a scheduler that does not answer.
    ImportError
        Dask is not installed.
    """
    tls = {name: getattr(options, f"tls_{name}") for name in ("ca_file", "cert", "key")}
    if options.workers is not None and options.scheduler is not None:
        raise ValueError("--workers: the workers are those of --scheduler; give one of both")
    if options.scheduler is None and any(tls.values()):
        raise ValueError("--tls-*: has no effect without --scheduler")
    elsewhere = bool(options.workers) or options.scheduler is not None
    try:
        distributed: Any = importlib.import_module("distributed") if elsewhere else None
        limits: Any = importlib.import_module("threadpoolctl").threadpool_limits
    except ImportError as problem:
        what = "--workers and --scheduler need Dask" if elsewhere else "training over partitions needs threadpoolctl"
        raise ImportError(f"{what} ({problem}): pip install 'diptych[distributed]'") from None
    importlib.import_module("scipy.optimize")  # with its BLAS, before the limit
    with limits(1, user_api="blas"):  # sums of long vectors have other bits with other numbers of threads
        yield from _executor(options, panel, rehearsal, tls, distributed)


def _executor(
    options: argparse.Namespace,
    panel: ModuleType,
    rehearsal: Rehearsal,
    tls: dict[str, str | None],
    distributed: Any,
) -> Iterator[Any]:
    compiled = hasattr(panel, "kernels_are_cold")
    if not options.workers and options.scheduler is None:
        yield None
        return
    if options.scheduler is None:
        if compiled:
            announce_compilation(panel, options.quiet)
            rehearsal()
        with _local(distributed, options.workers) as cluster, distributed.Client(cluster) as client:
            yield client
        return
    address, security = _address(distributed, options.scheduler, tls)
    with _connected(distributed, address, security) as client:
        if compiled:
            _compile(client, rehearsal)
        yield client


def _address(distributed: Any, address: str, tls: dict[str, str | None]) -> tuple[str, Any]:
    """The scheduler's address with its protocol, and the encryption; warns where there is none.

    Raises
    ------
    ValueError
        TLS to an address of another protocol; a certificate without its authority; a file that is not there.
    """
    protocol = address.partition("://")[0] if "://" in address else None
    if not any(tls.values()):
        if protocol != "tls" and not LOCAL.match(address):
            print(
                f"--scheduler {address}: not encrypted, and whoever reaches it can run code; see --tls-ca-file",
                file=sys.stderr,
            )
        return address, None
    if protocol not in (None, "tls"):
        raise ValueError(f"--scheduler: expected tls://... with the options --tls-*, got {address}")
    for name in ("ca_file", "cert"):
        if tls[name] is None:
            raise ValueError(f"--tls-{name.replace('_', '-')}: is needed too, as --tls-ca-file and --tls-cert are both")
    for name, file in tls.items():
        if file is not None and not Path(file).is_file():
            raise ValueError(f"--tls-{name.replace('_', '-')}: {file}: no such file")
    how = {"tls_ca_file": tls["ca_file"], "tls_client_cert": tls["cert"], "tls_client_key": tls["key"]}
    return f"tls://{address.removeprefix('tls://')}", distributed.Security(**how, require_encryption=True)


def _local(distributed: Any, workers: int) -> Any:
    """A cluster of processes of this machine, which nobody else reaches.

    Ctrl-C is for this process alone: it ends the run, and the workers, which block the signal, with it. Their log says
    again what the error that comes here says.
    """
    how = {"processes": True, "threads_per_worker": 1, "dashboard_address": "localhost:0"}
    how["env"] = {"DIPTYCH_NUM_THREADS": "1"}  # a process a core
    with _blocking_interrupts():
        return distributed.LocalCluster(n_workers=workers, silence_logs=logging.CRITICAL, **how)


@contextmanager
def _blocking_interrupts() -> Iterator[None]:
    """Threads and processes that start here never see Ctrl-C; one that comes meanwhile is raised at the end."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # which would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _connected(distributed: Any, address: str, security: Any) -> Any:
    """A client of the scheduler at an address. ValueError if it does not answer, or has no workers."""
    try:
        client = distributed.Client(address, security=security)
    except (OSError, ValueError, TypeError) as problem:
        hint = "; --tls-ca-file and --tls-cert name certificates" if "ssl_context" in str(problem) else ""
        raise ValueError(f"--scheduler {address}: {problem}{hint}") from None
    if not client.nthreads():
        client.close()
        raise ValueError(f"--scheduler {address}: it has no workers")
    return client


def _compile(client: Any, rehearsal: Rehearsal) -> None:
    """Rehearse once on each machine, on one of its workers."""
    one_of_each: dict[str, str] = {}
    for address in client.nthreads():
        one_of_each.setdefault(address.rpartition(":")[0], address)
    client.gather([client.submit(_called, rehearsal, workers=[each], pure=False) for each in one_of_each.values()])


def _called(rehearsal: Rehearsal) -> None:
    rehearsal()


def check_over(options: argparse.Namespace, solver: str, *without: str) -> None:
    """Raise ValueError for a solver that needs single examples, or for an option that has no effect over partitions."""
    if solver not in SOLVERS:
        raise ValueError(f"--optimizer {solver} needs single examples; over partitions: {', '.join(SOLVERS)}")
    if getattr(options, "learner", "linear") != "linear":
        raise ValueError(f"--learner {options.learner}: not over partitions")
    for name in without:
        if getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')}: not over partitions (--workers, --partitions, ...)")


def loss_over(panel: ModuleType, job: Job) -> Callable[..., Any]:
    """The job's loss, from model and packed data."""
    if job.loss == "crf":
        loss: Callable[..., Any] = panel.LogLoss
        return loss
    return partial(panel.StructuralHinge, smoothing=smoothing_of(panel, job))


def line_of(report: dict[str, Any]) -> str:
    """The line of a report about workers."""
    return (
        f"{report['partitions']} partitions, {report['workers']} workers, {report['repeated']} tasks repeated, "
        f"{report['bytes_a_pass']:,} bytes moved a pass"
    )


def moved(objective: Any, passes: int) -> dict[str, Any]:
    """What a report and the progress say of an objective over partitions."""
    return {
        "workers": objective.transport.workers,
        "partitions": len(objective.sizes),
        "repeated": objective.repeated,
        "bytes_a_pass": objective.moved // max(passes, 1),
    }
