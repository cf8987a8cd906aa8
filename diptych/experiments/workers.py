"""Runs of an experiment, in several processes if asked for, each done once: what the file beside the report has is
not done again.
"""

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
    """Performs runs, in so many processes of one thread each, and keeps their records, a line of JSON each.

    Parameters
    ----------
    act : callable
        act(data, run) -> record, a function of a module; a record is what JSON has.
    data : object
        What all runs have in common; processes get it pickled, so let it say where things are rather than hold them.
    jobs : int
        Number of processes.
    kept : Path
        The file of records.
    key : callable
        key(run): what tells the run, its data and its settings from others, as JSON has it.
    said : callable
        said(run, record): the line to stderr when it is done.
    """

    def __init__(
        self,
        act: Callable[[Any, Any], dict[str, Any]],
        data: Any,
        jobs: int,
        kept: Path,
        *,
        key: Callable[[Any], Any],
        said: Callable[[Any, dict[str, Any]], str],
    ) -> None:
        self.act, self.data, self.jobs, self.kept, self.said = act, data, jobs, kept, said
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
            zip(missing.items(), self._done([*missing.values()]), strict=True), 1
        ):
            self.records[key] = record
            with self.kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, record]) + "\n")
            print(f"  {number} of {len(missing)}: {self.said(run, record)}", file=sys.stderr, flush=True)
        return [self.records[key] for key, _ in keyed]

    def _done(self, runs: list[Any]) -> Iterator[dict[str, Any]]:
        if self.jobs == 1 or len(runs) < 2:
            set_num_threads(1)
            try:
                yield from (self.act(self.data, run) for run in runs)
            finally:
                set_num_threads(None)
            return
        pool = ProcessPoolExecutor(self.jobs, get_context("spawn"), set_num_threads, (1,))
        try:
            with _ctrl_c_ignored():  # also by the processes that this starts: they are ended by this one
                done = pool.map(self.act, [self.data] * len(runs), runs)
            yield from done
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()  # runs that are under way may take long
            raise
        pool.shutdown()


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
