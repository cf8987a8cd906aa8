"""The record of a run, its file, and the differences of two records.

A record has all that a user sees but seconds: every field of the result, its history column by column, warnings; or the
error's type and message. Of NamedTuples and lists it has the leaves. Floats are written by ``repr``, which keeps their
bits.

Messages are compared word by word; words with a point or an exponent are compared as numbers. They are kept
without the names of folders, addresses and modules below a panel, which may move; and SciPy's underscores are spaces,
as in some of its versions.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reference.screening.path import PathPoint

__all__ = ["FOLDER", "all_differences", "differences", "path_of", "read", "record", "write"]

VALUES = Path(__file__).parent / "values"
FOLDER = "golden-"  # how the names of temporary folders begin
RELATIVE = 1e-9
GIVEN = ("rows",)  # of a result's fields: the training positions of kernels
PLACES = [
    (re.compile(rf"[^\s']*{FOLDER}\w+"), "FOLDER"),
    (re.compile(r"\b(reference|accelerated|conformance)(\.[\w<>]+)+"), r"\1"),
    (re.compile(r"0x[0-9a-f]+"), "0x"),
]
NUMBER = re.compile(r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\binf\b|\bnan\b)")


def path_of(backend: str) -> Path:
    """The file of a backend's values; there is one only where they were recorded."""
    return VALUES / f"{backend}.json.gz"


def read(backend: str) -> dict[str, Any]:
    """Name of the configuration to its record."""
    return json.loads(gzip.decompress(path_of(backend).read_bytes()))


def write(backend: str, records: dict[str, Any]) -> None:
    """One line a configuration; equal records make equal files."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(record)}" for name, record in sorted(records.items()))
    VALUES.mkdir(exist_ok=True)
    path_of(backend).write_bytes(gzip.compress(f"{{\n{lines}\n}}\n".encode(), mtime=0))


def record(run: Callable[[], Any]) -> dict[str, Any]:
    """Run it and record the outcome. A run may return a result, or a dictionary of results and other values."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run()
        except Exception as problem:
            kept: dict[str, Any] = {"error": type(problem).__name__, "message": words(str(problem))}
        else:
            kept = leaves(found)
    if seen:
        kept["warnings"] = [f"{each.category.__name__}: {words(str(each.message))}" for each in seen]
    return kept


def words(message: str) -> str:
    """A message without the parts that depend on the machine or version."""
    for pattern, place in PLACES:
        message = pattern.sub(place, message)
    return message.replace("_", " ") if message.startswith(("CONVERGENCE", "STOP")) else message


def leaves(x: Any) -> Any:
    """Results, NamedTuples, lists, arrays and numbers as JSON has them, without seconds."""
    if isinstance(x, str):
        return words(x)
    if isinstance(x, np.ndarray | np.generic):
        return x.tolist()
    if x is None or isinstance(x, bool | int | float):
        return x
    if is_dataclass(x):
        own = [field.name for field in fields(x) if not (isinstance(x, PathPoint) and field.name == "alpha")]
        x = {name: getattr(x, name) for name in own}  # alpha is the path's
    elif hasattr(x, "_asdict"):
        x = x._asdict()
    if isinstance(x, dict):
        return {name: leaves(each) for name, each in x.items() if not name.endswith("seconds") and name not in GIVEN}
    if isinstance(x, tuple | list):
        return columns([leaves(each) for each in x])
    raise TypeError(f"record: no form for {type(x).__name__}")


def columns(rows: list[Any]) -> Any:
    """Rows of the same fields as columns, without columns of None; any other list unchanged."""
    if not rows or not all(isinstance(row, dict) and row.keys() == rows[0].keys() for row in rows):
        return rows
    together = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: column for name, column in together.items() if any(each is not None for each in column)}


def all_differences(
    then: dict[str, Any], now: dict[str, Any], families: Iterable[str], bits: bool = False
) -> Iterator[str]:
    """The differences between the records of these families, with the run's name; also runs that only one side has."""
    names = {name for name in (*then, *now) if name.split("/")[0] in families}
    for name in sorted(names):
        if name not in then or name not in now:
            yield f"{name}: not recorded" if name not in then else f"{name}: recorded, but there is no such run"
            continue
        yield from (f"{name}: {line}" for line in differences(then[name], now[name], bits))


def differences(recorded: Any, found: Any, bits: bool = False, field: str = "", scale: float = 0.0) -> Iterator[str]:
    """The differences between two records, a line each: the field, the recorded and the new value.

    Without ``bits``, numbers differ where they are further apart than 1e-9 of the recorded one or of ``scale``: of
    weights, the largest; of gaps, duals, certificates and numbers in messages, the objective; of others, the largest of
    their list.
    """
    if isinstance(recorded, dict) and isinstance(found, dict) and recorded.keys() == found.keys():
        for name in recorded:
            within = max([scale, *(largest(recorded.get(each)) for each in measures(name))])
            yield from differences(recorded[name], found[name], bits, f"{field}.{name}".lstrip("."), within)
    elif isinstance(recorded, dict) and isinstance(found, dict):
        yield f"{field}: fields {', '.join(recorded)} recorded, {', '.join(found)} found".lstrip(": ")
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        within = max(scale, largest(recorded))
        for i, (old, new) in enumerate(zip(recorded, found, strict=True)):
            yield from differences(old, new, bits, f"{field}[{i}]", within)
    elif not same(recorded, found, bits, scale):
        yield f"{field}: {_short(recorded)} recorded, {_short(found)} found"


def _short(x: Any) -> str:
    return f"{len(x)} entries" if isinstance(x, list) else repr(x)


def measures(name: str) -> tuple[str, ...]:
    """The fields whose size is the scale of another's rounding."""
    return ("fun", "objective") if name in ("gap", "dual", "certificate", "message", "history", "screenings") else ()


def largest(x: Any) -> float:
    """The largest finite magnitude of a number or a list of numbers; 0 of anything else."""
    if isinstance(x, list):
        return max(map(largest, x), default=0.0)
    return abs(x) if isinstance(x, float) and math.isfinite(x) else 0.0


def same(recorded: Any, found: Any, bits: bool, scale: float) -> bool:
    """Whether two leaves are one; integers, booleans and words are exact in any case."""
    if bits or type(recorded) is not type(found):
        return type(recorded) is type(found) and repr(recorded) == repr(found)
    if isinstance(recorded, float):
        return near(recorded, found, scale)
    if isinstance(recorded, str) and NUMBER.sub("#", recorded) == NUMBER.sub("#", found):
        return all(
            near(float(a), float(b), scale)
            for a, b in zip(NUMBER.findall(recorded), NUMBER.findall(found), strict=True)
        )
    return recorded == found


def near(a: float, b: float, scale: float) -> bool:
    """Equal, both nan, or within the tolerance."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= RELATIVE * max(abs(a), scale)
