"""Independent runs, such as those of folds or of a grid, as tasks of an executor.

Each result is saved in a file as soon as its run ends.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from diptych.distributed.transports import transport_of
from diptych.interrupts import finishing
from reference.files import append, save_bytes


class Runs:
    """Performs runs as tasks, and saves each result as a line of JSON. Runs in the file are not repeated.

    Parameters
    ----------
    task : callable
        task(run): the result of a run; it must be JSON-able. For other processes the task must be picklable, so it
        should contain the name of its data and not the data.
    kept : path
        The file of results.
    executor : optional
        An executor of ``concurrent.futures``, or a Dask client, which repeats runs that were lost with their worker.
        None: this process, one run after another.
    key : callable, optional
        key(run): identifies the run with its data and its settings; it must be JSON-able. Default: the run.
    describe : callable, optional
        describe(run, result): the line that is printed on stderr after the run.
    failed : callable, optional
        failed(result): whether the run failed. Its result is then returned but not saved. Default: no run fails.

    Raises
    ------
    ValueError
        ``kept`` has other lines; the message names the first. An incomplete last line is no error and is ignored.

    Examples
    --------
    >>> import math, tempfile
    >>> from diptych.distributed import Runs
    >>> kept = tempfile.mkdtemp() + "/roots.jsonl"
    >>> Runs(math.sqrt, kept).perform([4, 9])
    [2.0, 3.0]
    >>> Runs(math.sqrt, kept, describe="{} {}".format).perform([9, 4])  # from the file
    [3.0, 2.0]
    """

    def __init__(
        self,
        task: Callable[[Any], Any],
        kept: str | Path,
        executor: Any = None,
        *,
        key: Callable[[Any], Any] | None = None,
        describe: Callable[[Any, Any], str] | None = None,
        failed: Callable[[Any], bool] | None = None,
    ) -> None:
        self.task, self.kept, self.key, self.describe, self.failed = task, Path(kept), key, describe, failed
        self.transport = transport_of(executor)
        self.results = _read(self.kept) if self.kept.exists() else {}

    def perform(self, runs: Iterable[Any]) -> list[Any]:
        """The results of the runs, in the order of the runs.

        New results are converted to JSON and back, so that they equal those read from the file.

        Raises
        ------
        Exception
            A task failed. The results until then are saved.
        WorkersLost
            Workers ended, and the executor cannot replace them.
        """
        keyed = [(self._key(run), run) for run in runs]
        missing = list({key: run for key, run in keyed if key not in self.results}.items())
        fresh = {}
        with self.transport.sent((self.task, [run for _, run in missing])) as sent:
            for k, result in self.transport.anywhere(_performed, len(missing), *sent) if missing else ():
                key, run = missing[k]
                fresh[key] = json.loads(json.dumps(result))
                if self.failed is None or not self.failed(fresh[key]):
                    with finishing():  # Ctrl-C does not take back a line that is written
                        self._keep(key, fresh[key])
                if self.describe is not None:
                    line = f"  {len(fresh)} of {len(missing)}: {self.describe(run, fresh[key])}"
                    print(line, file=sys.stderr, flush=True)
        if self.transport.lost:
            print(f"  workers lost: {self.transport.lost}; their runs were repeated", file=sys.stderr, flush=True)
        return [self.results[key] if key in self.results else fresh[key] for key, _ in keyed]

    def is_kept(self, run: Any) -> bool:
        """Whether the file has the result of a run."""
        return self._key(run) in self.results

    def _key(self, run: Any) -> str:
        return json.dumps(run if self.key is None else self.key(run), sort_keys=True)

    def _keep(self, key: str, result: Any) -> None:
        self.results[key] = result
        with open(self.kept, "ab", buffering=0) as file:
            append(file, self.kept, (json.dumps([key, result]) + "\n").encode())


def _performed(task_and_runs: tuple[Callable[[Any], Any], list[Any]], k: int) -> Any:
    task, runs = task_and_runs
    return task(runs[k])


def _read(path: Path) -> dict[str, Any]:
    """The results by key. An incomplete last line is removed from the file."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1] or content
    results: dict[str, Any] = {}
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            key, result = json.loads(line)
            results[key] = result
        except (ValueError, TypeError) as problem:
            raise ValueError(f"{path}:{number}: expected a run and its result, got another line: {problem}") from None
    if len(whole) < len(content):
        save_bytes(path, whole)
    return results
