"""Logs of training: a line of JSON for the job, one for each row of the history, and one for the outcome.

    {"command": "train", "panel": "accelerated", ..., "job": {...}}
    {"epoch": 1, "oracle_calls": 6251, "seconds": 0.21, "objective": 4.1, "dual": 1.2, "gap": 2.9, "exact": null, ...}
    {"outcome": "relative gap 0.001 reached in epoch 41", "success": true, "interrupted": false, ...}

If worker processes were lost, a line ``{"workers_lost": 1, "tasks_repeated": 3}`` has the counts since the start.

A run that resumes from a checkpoint appends to the existing log: its job, then its rows. nan and infinities are written
as null.
"""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from reference.archives import parse_json
from reference.files import NotWritten, append
from reference.training.result import Result, Row

LARGEST = sys.float_info.max
NEEDED = {"epoch", "oracle_calls", "seconds", "objective"}  # the required fields of a row


class Log(NamedTuple):
    """The content of a log: the first job, all rows, and the outcome (None if the run has not ended properly)."""

    job: dict[str, Any]
    rows: tuple[Row, ...]
    outcome: dict[str, Any] | None


def load_log(path: str | Path) -> Log:
    """Read a log that a training command wrote with ``--log``.

    Raises
    ------
    ValueError
        A missing or damaged file, or one that is not a log. The message names the file and the line. A truncated last
        line is not an error; it is skipped.

    Notes
    -----
    A run may resume from a checkpoint that is older than the log's last rows. Then the rows of the later run replace
    them.
    """
    job: dict[str, Any] | None = None
    rows: list[Row] = []
    outcome = None
    if not Path(path).exists():
        raise ValueError(f"{path}: no such file")
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as problem:
        raise ValueError(f"{path}: not a log of diptych: not a text file in UTF-8: {problem}") from None
    for number, line in enumerate(lines, 1):
        if not line and number == len(lines):
            break
        try:
            fields = parse_json("line", line)
            if not isinstance(fields, dict) or not isinstance(fields.get("job", {}), dict):
                raise ValueError
            if "epoch" in fields:
                row = _row(fields)
                while rows and rows[-1].epoch >= row.epoch:
                    rows.pop()
                rows.append(row)
            elif "workers_lost" in fields:
                continue
            elif "outcome" in fields:
                outcome = fields
            else:
                job, outcome = fields if job is None else job, None
        except ValueError:
            if number == len(lines):  # a truncated line: the run was killed while writing
                break
            raise ValueError(f"{path}, line {number}: not a line of a log of training: {line[:60]}") from None
        if job is None:
            raise ValueError(f"{path}, line {number}: expected the job in the first line, got {line[:60]}")
    if job is None:
        raise ValueError(f"{path}: not a log of training: it is empty")
    return Log(job, tuple(rows), outcome)


def _row(fields: dict[str, Any]) -> Row:
    """The row of a line. ValueError for other fields, and for values that LogWriter does not write."""
    if not NEEDED <= set(fields) <= set(Row.__dataclass_fields__):
        raise ValueError
    for name, value in fields.items():
        integral = name in ("epoch", "oracle_calls")
        if value is None and name not in NEEDED - {"objective"}:
            continue
        if not (type(value) is int or (type(value) is float and not integral)) or not abs(value) <= LARGEST:
            raise ValueError
    return Row(**{**fields, "objective": math.nan if fields["objective"] is None else fields["objective"]})


class LogWriter:
    """A callback that writes a log. Every line is on disk before the next epoch begins.

    path: None writes nothing. more: append to an existing log, after removing a truncated last line. The file is not
    changed before the first row or the outcome is written. If a line cannot be written, as on a full disk, a warning
    (:class:`NotWritten`) names the log, no part of the line stays in the file, and nothing more is written.
    """

    def __init__(self, path: str | Path | None, job: dict[str, Any], *, more: bool = False) -> None:
        self.path, self.job, self.more = path, job, more
        self.file: IO[bytes] | None = None
        self.epoch = 0  # epoch of the last written row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.file is not None:
            self.file.close()

    def __call__(self, row: Row, w: Any) -> None:
        self.write(row.as_dict())
        self.epoch = row.epoch

    def ended(self, result: Result) -> None:
        """Write the outcome; before it the last row, if an interrupt prevented it from being written."""
        begun = self.epoch > 0 or not self.more
        if begun and result.history and result.history[-1].epoch > self.epoch:
            self(result.history[-1], None)
        outcome = {"outcome": result.message, "success": result.success, "interrupted": result.interrupted}
        outcome |= {"objective": result.fun, "certificate": result.certificate, "oracle_calls": result.oracle_calls}
        self.write(outcome)

    def write(self, fields: dict[str, Any]) -> None:
        """Write a line."""
        if self.path is None:
            return
        try:
            lines = [fields]
            if self.file is None:
                self.file, lines = self._opened(self.path), [self.job, fields]
            for line in lines:
                append(self.file, self.path, (json.dumps(jsonable(line), allow_nan=False) + "\n").encode())
        except OSError as problem:
            what = f"{self.path}: {str(problem.strerror).lower()}: the log ends here; the run goes on"
            self.path = None
            warnings.warn(what, NotWritten, stacklevel=2)

    def _opened(self, path: str | Path) -> IO[bytes]:
        """The log opened for appending; truncated to its complete lines with ``more``, else to nothing."""
        if Path(path).is_file():
            os.truncate(path, Path(path).read_bytes().rfind(b"\n") + 1 if self.more else 0)
        return open(path, "ab", buffering=0)


def jsonable(x: Any) -> Any:
    """x with None in place of nan and infinities, which JSON does not have."""
    if isinstance(x, dict):
        return {key: jsonable(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [jsonable(value) for value in x]
    return None if isinstance(x, float) and not math.isfinite(x) else x
