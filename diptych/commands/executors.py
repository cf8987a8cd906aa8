"""The executors of the command line: processes of this machine, or the workers of a scheduler of Dask."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import ModuleType
from typing import Any

from diptych.commands.options import FILE, Words, count
from diptych.commands.output import announce_compilation
from diptych.distributed import local_client

LOCAL = re.compile(r"(?:[a-z]+://)?(?:localhost|127\.[\d.]+|\[::1\])(?::|$)|inproc:")
TLS = {"ca_file": "authority's certificate", "cert": "certificate", "key": "private key"}
PATIENCE = 40.0  # seconds until something that is not a scheduler is given up; Dask's own limit for one is 30
EXECUTOR = ("workers", "scheduler", *(f"tls_{name}" for name in TLS))  # the options of an executor
Rehearsal = Callable[[], Any]


def add_executor(sub: Any, what: str) -> None:
    """Add the options of an executor. what: what its workers do, for the help."""
    sub.option("workers", "--workers", type=count, metavar="N",
        help=f"{what} with N processes of this machine, or in this one (0)")  # fmt: skip
    sub.option("workers", "--scheduler", metavar="ADDRESS", rare=True,
        help=f"{what} on the workers of this scheduler of Dask")  # fmt: skip
    for name, file in TLS.items():
        sub.option(
            "workers", f"--tls-{name.replace('_', '-')}", rare=True, help=f"TLS to the scheduler: {file}", **FILE
        )


class Workers(Words):
    """The options of an executor; the first field of a command adds them all."""

    workers: int | None = None
    scheduler: str | None = None
    tls_ca_file: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None


@contextmanager
def executor_of_runs(options: Any) -> Iterator[Any]:
    """The executor that the options ask for, None for this process, for runs that have nothing to do with one another.

    Raises
    ------
    ValueError, ImportError
        As :func:`executor_of`.
    """
    if any(getattr(options, name) is not None for name in EXECUTOR):
        with executor_of(options, None, None) as executor:
            yield executor
    else:
        yield None


@contextmanager
def executor_of(options: Any, panel: ModuleType | None, rehearsal: Rehearsal | None) -> Iterator[Any]:
    """The executor that the options ask for, None for this process.

    rehearsal: compiles the panel's kernels, once on each machine, on one of its workers while the others wait.

    Raises
    ------
    ValueError
        Options that contradict one another; a scheduler that does not answer.
    ImportError
        Dask is not installed.
    """
    tls = {name: getattr(options, f"tls_{name}") for name in TLS}
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
    with limits(1, user_api="blas"):  # sums of long vectors have other bits with other numbers of threads
        yield from _executor(options, panel, rehearsal, tls, distributed)


def _executor(
    options: Any, panel: ModuleType | None, rehearsal: Rehearsal | None, tls: dict[str, str | None], distributed: Any
) -> Iterator[Any]:
    if not options.workers and options.scheduler is None:
        yield None
        return
    if options.scheduler is None:
        if panel is not None and rehearsal is not None and hasattr(panel, "kernels_are_cold"):
            announce_compilation(panel, options.quiet)
            rehearsal()
        with local_client(options.workers) as client:
            yield client
        return
    address, security = _address(distributed, options.scheduler, tls)
    with _connected(distributed, address, security) as client:
        if rehearsal is not None and hasattr(panel, "kernels_are_cold"):
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


def _connected(distributed: Any, address: str, security: Any) -> Any:
    """A client of the scheduler at an address. ValueError if it does not answer, or has no workers.

    Dask waits for ever at an address where something else answers. So it waits in a thread of its own.
    """
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


def _compile(client: Any, rehearsal: Rehearsal) -> None:
    """Rehearse once on each machine, on one of its workers."""
    one_of_each: dict[str, str] = {}
    for address in client.nthreads():
        one_of_each.setdefault(address.rpartition(":")[0], address)
    client.gather([client.submit(_called, rehearsal, workers=[each], pure=False) for each in one_of_each.values()])


def _called(rehearsal: Rehearsal) -> None:
    rehearsal()
