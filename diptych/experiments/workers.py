"""The runs of an experiment, in one or several processes. Runs that are in the file of records are not repeated."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from accelerated.threads import set_num_threads

__all__ = ["Workers"]


class Workers:
    """Performs runs in processes of one thread each, and writes their records, a line of JSON each.

    Parameters
    ----------
    act : callable
        act(data, run) -> record; a function of a module. Records are JSON-able.
    data : object
        The common input of all runs. It is pickled for other processes, so it should name files, not hold their
        content.
    jobs : int
        Number of processes.
    kept : Path
        The file of records.
    key : callable
        key(run): JSON-able; identifies the run, its data and its settings.
    describe : callable
        describe(run, record): the line on stderr after the run.
    """

    def __init__(
        self,
        act: Callable[[Any, Any], dict[str, Any]],
        data: Any,
        jobs: int,
        kept: Path,
        *,
        key: Callable[[Any], Any],
        describe: Callable[[Any, dict[str, Any]], str],
    ) -> None:
        self.act, self.data, self.jobs, self.kept, self.describe = act, data, jobs, kept, describe
        self.key = key
        self.records: dict[str, dict[str, Any]] = {}
        if kept.exists():
            try:
                self.records = dict(map(json.loads, kept.read_text(encoding="utf-8").splitlines()))
            except (ValueError, TypeError) as problem:
                raise ValueError(
                    f"{kept}: expected a run in each line, got others; mend or delete it: {problem}"
                ) from None

    def perform(self, runs: Iterable[Any]) -> list[dict[str, Any]]:
        """The records of the runs, in their order."""
        keyed = [(json.dumps(self.key(run), sort_keys=True), run) for run in runs]
        missing = {key: run for key, run in keyed if key not in self.records}
        for number, ((key, run), record) in enumerate(
            zip(missing.items(), self._performed([*missing.values()]), strict=True), 1
        ):
            self.records[key] = record
            with self.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, record]) + "\n")
            print(f"  {number} of {len(missing)}: {self.describe(run, record)}", file=sys.stderr, flush=True)
        return [self.records[key] for key, _ in keyed]

    def _performed(self, runs: list[Any]) -> Iterator[dict[str, Any]]:
        if self.jobs == 1 or len(runs) < 2:
            set_num_threads(1)
            try:
                yield from (self.act(self.data, run) for run in runs)
            finally:
                set_num_threads(None)
            return
        pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), set_num_threads, (1,))
        try:
            with _ctrl_c_ignored():  # new processes inherit this; the parent process terminates them
                records = pool.map(self.act, [self.data] * len(runs), runs)
            yield from records
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()  # a current run may take long
            raise
        pool.shutdown()


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
