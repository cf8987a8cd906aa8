"""Published results: a report as a small compressed JSON file, and its table between two marks of a page."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reference.files import save_bytes

DIGITS = 6
MOST_BYTES = 300_000  # of a file
GRIDS = ("tuning", "certificates", "eta0", "C")  # the parts of reports that have the runs over grids


def compact(part: Any, last: bool = False) -> Any:
    """The part of a report with numbers of six digits. Runs over grids keep only their last row, as all do with
    ``last``.
    """
    if isinstance(part, dict):
        each = ((name, value[-1:] if last and name == "rows" else value) for name, value in part.items())
        return {name: compact(value, last or name in GRIDS) for name, value in each}
    if isinstance(part, list | tuple):
        return [compact(value, last) for value in part]
    return float(f"{part:.{DIGITS}g}") if isinstance(part, float) else part


def save_results(path: Path, report: dict[str, Any]) -> None:
    """Write a compact report: equal reports give equal bytes. ValueError for more than :data:`MOST_BYTES`."""
    content = gzip.compress(json.dumps(compact(report), separators=(",", ":")).encode(), mtime=0)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path}: expected at most {MOST_BYTES} bytes to publish, got {len(content)}")
    save_bytes(path, content)


def marks(name: str) -> tuple[str, str]:
    """The lines before and after the table of an experiment on a page."""
    return f"<!-- {name}: diptych reproduce {name} --page writes it -->", f"<!-- end of {name} -->"


def table_on(page: str, name: str) -> str | None:
    """The table of an experiment on the text of a page, or None."""
    begin, end = marks(name)
    _, found, rest = page.partition(begin)
    table, ended, _ = rest.partition(end)
    return table.strip() if found and ended else None


def check_page(path: Path, name: str) -> str:
    """The text of a page. ValueError if it has no marks for the table of the experiment."""
    page = path.read_text(encoding="utf-8")
    if table_on(page, name) is None:
        raise ValueError(f"{path}: expected the marks {' and '.join(marks(name))}")
    return page


def write_table(path: Path, name: str, table: str) -> None:
    """Write the table of an experiment between its marks on a page. ValueError for a page without them."""
    page, (begin, end) = check_page(path, name), marks(name)
    before, rest = page.split(begin, 1)
    save_bytes(path, f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end, 1)[1]}".encode())


def load() -> float | None:
    """The number of processes that can run, on average over the last minute; None where it is not known."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def timed(report: dict[str, Any]) -> bool:
    """Whether the seconds of a report count: no ``load`` in it, at the end of a run, exceeds the number of cores."""
    return bool(max(_loads(report), default=0.0) <= report["versions"]["cores"])


def _loads(part: Any) -> Iterator[float]:
    if isinstance(part, dict):
        yield from (value for name, value in part.items() if name == "load" and value is not None)
        part = list(part.values())
    if isinstance(part, list):
        for each in part:
            yield from _loads(each)
