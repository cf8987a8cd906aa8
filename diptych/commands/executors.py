"""Training over partitions and runs on several processes: of this machine, or the workers of a scheduler of Dask."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Any

from diptych.commands.jobs import CASIMIR
from diptych.commands.options import FILE, Words, count, declared, option, positive
from diptych.commands.tag_files import paths_of
from diptych.distributed import Partitioned, local_client

LOCAL = re.compile(r"(?:[a-z]+://)?(?:localhost|127\.[\d.]+|\[::1\])(?::|$)|inproc:")
TLS = {"tls_ca_file": "authority's certificate", "tls_cert": "certificate", "tls_key": "private key"}
PATIENCE = 40.0  # seconds until something that is not a scheduler is given up; Dask's own limit for one is 30
EXECUTOR = ("workers", "scheduler", *TLS)  # the options of an executor
SOLVERS = ("lbfgs", "cocoa", "svrg", *CASIMIR, "cutting-planes", "elastic-net")  # what trains over partitions
LEAST_PARTS = 8  # the result depends on the parts, so their number does not depend on the workers
UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def add_executor(sub: Any, *_: Any, what: str) -> None:
    """Add the options of :class:`Workers`, all for its first field. what: what its workers do, for the help."""
    sub.option("workers", "--workers", type=count, help=f"{what} with N processes of this machine, or in this one (0)")
    sub.option("workers", "--scheduler", metavar="ADDRESS", rare=True,
        help=f"{what} on the workers of this scheduler of Dask")  # fmt: skip
    for name, file in TLS.items():
        sub.option("workers", f"--{name.replace('_', '-')}", rare=True, help=f"TLS to the scheduler: {file}", **FILE)


class Workers(Words):
    """The options of an executor."""

    workers: int | None = None
    scheduler: str | None = None
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None


def size(text: str) -> int:
    """The value of an option of type number of bytes, such as 500MB or 2GiB."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,6})?) ?([a-z]*)", text.strip().lower())
    value = 0 if match is None or match[2] not in UNITS else int(float(match[1]) * UNITS[match[2]])
    if value < 1000:
        expected = "a number of bytes such as 500MB or 2GiB (lbfgs's pairs are --corrections)"
        raise argparse.ArgumentTypeError(f"expected {expected}, got {text:.80}")
    return value


class Cluster(Workers):
    """The options of training over partitions."""

    workers: int | None = declared(partial(add_executor, what="train over partitions"))
    partitions: int | None = option("workers",
        f"partitions in all, at least one a file; they decide the result (default: {LEAST_PARTS})", type=positive,
        metavar="P", rare=True)  # fmt: skip
    memory: int | None = option("workers",
        "packed partitions that a process keeps, such as 500MB; others are read again (default: all)", type=size,
        metavar="BYTES", rare=True)  # fmt: skip

    @property
    def over_partitions(self) -> bool:
        """Whether the options ask for training over partitions."""
        return any(getattr(self, name) is not None for name in (*EXECUTOR, "partitions", "memory"))

    def check_over(self, solver: str, *without: str) -> None:
        """Raise ValueError for a solver, and over partitions for an option, that does not go with the choice."""
        if not self.over_partitions:
            if solver == "cocoa":
                how = "give --workers, --scheduler or --partitions"
                raise ValueError(f"--optimizer cocoa trains over partitions: {how}")
            return
        if (learner := getattr(self, "learner", "linear")) != "linear":
            raise ValueError(f"--learner {learner}: not over partitions")
        if solver not in SOLVERS:
            raise ValueError(f"--optimizer {solver} needs single examples; over partitions: {', '.join(SOLVERS)}")
        for name in without:
            if getattr(self, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')}: not over partitions (--workers, --partitions, ...)")

    def files(self, words: Sequence[str], *names: str) -> tuple[list[str], list[str], list[int]]:
        """The files that the words name, their absolute paths, and the parts of each. names: of data of the package."""
        files = list(words) if words[0] in names else paths_of(words)
        if "-" in files:
            raise ValueError("-: standard input is not read over partitions; give a file")
        local = self.scheduler is None
        paths = [path if local or path in names else str(Path(path).absolute()) for path in files]
        return files, paths, parts_a_file(self, len(files))

    @contextmanager
    def partitioned(
        self, panel: ModuleType, rehearsal: Rehearsal, model_of: Callable[[Any], Any], loaders_of: Callable[[Any], Any]
    ) -> Iterator[Partitioned]:
        """The objective over partitions. model_of: from the executor; loaders_of: of the partitions, from the model."""
        with executor_of(self, panel, rehearsal) as executor:
            model = model_of(executor)
            yield Partitioned(loaders_of(model), model, rehearsal.loss, executor, memory=self.memory)


def parts_a_file(command: Any, files: int) -> list[int]:
    """The parts of each file, which are ``--partitions`` in all, and at least one a file."""
    total = max(command.partitions or LEAST_PARTS, files)
    return [total * (k + 1) // files - total * k // files for k in range(files)]


@dataclass(frozen=True)
class Rehearsal:
    """A training on a few examples X, Y, which compiles what that on all needs. run: trains with an objective."""

    model: Any
    loss: Callable[[Any, Any], Any]
    run: Callable[[Any], Any]
    X: Any
    Y: Any

    def __call__(self) -> None:
        objective = Partitioned([lambda: (self.X, self.Y)], self.model, self.loss)
        self.run(objective)
        self.model.predict(self.model.pack(self.X), None, objective.zeros())


def line_of(report: dict[str, Any]) -> str:
    """The line of a report about workers."""
    form = "{partitions} partitions, {workers} workers, {repeated} tasks repeated, {bytes_a_pass:,} bytes moved a pass"
    return form.format_map(report)


# executors ------------------------------------------------------------------------------------------------------------


@contextmanager
def executor_of(
    options: Any, panel: ModuleType | None = None, rehearsal: Callable[[], Any] | None = None
) -> Iterator[Any]:
    """The executor that the options ask for, None for this process. ImportError without Dask.

    panel: None for runs that have nothing to do with one another. rehearsal: compiles the panel's kernels, once on each
    machine, on one of its workers while the others wait.
    """
    if panel is None and all(getattr(options, name) is None for name in EXECUTOR):
        yield None
        return
    tls = {name: getattr(options, name) for name in TLS}
    if options.workers is not None and options.scheduler is not None:
        raise ValueError("--workers: the workers are those of --scheduler; give one of both")
    if options.scheduler is None and any(tls.values()):
        raise ValueError("--tls-*: has no effect without --scheduler")
    elsewhere = bool(options.workers) or options.scheduler is not None
    try:
        distributed: Any = importlib.import_module("distributed") if elsewhere else None
        limits: Any = importlib.import_module("threadpoolctl").threadpool_limits
    except ImportError as problem:
        what = "--workers and --scheduler need Dask" if elsewhere else "one thread of BLAS needs threadpoolctl"
        raise ImportError(f"{what} ({problem}): pip install 'diptych[distributed]'") from None
    importlib.import_module("scipy.optimize")  # with its BLAS, before the limit
    rehearsed = rehearsal if hasattr(panel, "kernels_are_cold") else None
    with limits(1, user_api="blas"):  # sums of long vectors have other bits with other numbers of threads
        if options.scheduler is not None:
            with _connected(distributed, *_address(distributed, options.scheduler, tls)) as client:
                if rehearsed is not None:
                    _compile(client, rehearsed)
                yield client
        elif options.workers:
            if rehearsed is not None:
                rehearsed()
            with local_client(options.workers) as client:
                yield client
        else:
            yield None


def _address(distributed: Any, address: str, tls: dict[str, str | None]) -> tuple[str, Any]:
    """The scheduler's address with its protocol, and the encryption; warns where there is none."""
    protocol = address.partition("://")[0] if "://" in address else None
    if not any(tls.values()):
        if protocol != "tls" and not LOCAL.match(address):
            unsafe = "not encrypted, and whoever reaches it can run code; see --tls-ca-file"
            print(f"--scheduler {address}: {unsafe}", file=sys.stderr)
        return address, None
    if protocol not in (None, "tls"):
        raise ValueError(f"--scheduler: expected tls://... with the options --tls-*, got {address}")
    named = {f"--{name.replace('_', '-')}": file for name, file in tls.items()}
    for name in [*named][:2]:
        if named[name] is None:
            raise ValueError(f"{name}: is needed too, as --tls-ca-file and --tls-cert are both")
    for name, path in named.items():
        if path is not None and not Path(path).is_file():
            raise ValueError(f"{name}: {path}: no such file")
    how = {"tls_ca_file": tls["tls_ca_file"], "tls_client_cert": tls["tls_cert"], "tls_client_key": tls["tls_key"]}
    return f"tls://{address.removeprefix('tls://')}", distributed.Security(**how, require_encryption=True)


def _connected(distributed: Any, address: str, security: Any) -> Any:
    """A client of the scheduler. Dask waits for ever where something else answers, so it waits in a thread."""
    answer: SimpleQueue[Any] = SimpleQueue()

    def connect() -> None:
        try:
            answer.put(distributed.Client(address, security=security))
        except (OSError, ValueError, TypeError) as problem:
            answer.put(problem)

    threading.Thread(target=connect, daemon=True).start()
    try:
        client = answer.get(timeout=PATIENCE)
    except Empty:
        raise ValueError(f"--scheduler {address}: no scheduler of Dask answers there") from None
    if isinstance(client, Exception):
        hint = "; --tls-ca-file and --tls-cert name certificates" if "ssl_context" in str(client) else ""
        raise ValueError(f"--scheduler {address}: {client}{hint}")
    if not client.nthreads():
        client.close()
        raise ValueError(f"--scheduler {address}: it has no workers")
    return client


def _compile(client: Any, rehearsal: Callable[[], Any]) -> None:
    """Rehearse once on each machine, on one of its workers."""
    machines = {address.rpartition(":")[0]: address for address in reversed(client.nthreads())}
    client.gather([client.submit(lambda: rehearsal(), workers=[each], pure=False) for each in machines.values()])
