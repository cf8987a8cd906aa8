"""Checkpoint files: records, which are NamedTuples and dataclasses, as an ``.npz`` of arrays and one JSON header.

No pickle, and reading imports no module. Each optimiser has its own form of state, so the content cannot be validated;
a checksum over the header and all arrays detects damage.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from reference.archives import parse_json, read_npz
from reference.arrays import Array, Place, host
from reference.files import replacing

__all__ = ["read_records", "write_records"]

FORMAT = 3
WHAT = "checkpoint of diptych"
Kind = Callable[..., Any]


def write_records(path: str | Path, content: dict[str, Any]) -> None:
    """Write a dictionary of values that :func:`encode` accepts; an older file at ``path`` is replaced atomically."""
    arrays: dict[int, tuple[int, Array]] = {}
    header = json.dumps({"checkpoint": FORMAT, **{name: encode(value, arrays) for name, value in content.items()}})
    members: dict[str, Any] = {str(number): host(array) for number, array in arrays.values()}
    with replacing(path) as file:
        np.savez(file, header=np.array(header), check=np.array(_checksum(header, members)), **members)


def read_records(path: str | Path, place: Place, former: Mapping[str, Kind]) -> dict[str, Any]:
    """The dictionary that was written; arrays that were not on the host are put in ``place``.

    former: makers of the records of older files, by the names of their types there, from the fields that they had.

    Raises
    ------
    ValueError
        Naming the file: not a checkpoint, of another format, damaged, or with a state of an unknown type.
    """
    members = read_npz(path, WHAT)
    try:
        text = str(members["header"])
        header = parse_json("header", text)
        version = header.pop("checkpoint")
    except (KeyError, ValueError, AttributeError, TypeError):
        raise ValueError(f"{path}: not a {WHAT}; found {', '.join(sorted(members)) or 'nothing'}") from None
    if version != FORMAT:
        raise ValueError(f"{path}: checkpoint of format {version!r}, this version of diptych reads format {FORMAT}")
    try:
        content = {name: decode(value, members, place, former) for name, value in header.items()}
    except _OtherPanel as problem:
        raise ValueError(of_another_panel(path, str(problem))) from None
    except Exception as problem:  # a record of any type is built from the file's content
        raise ValueError(f"{path}: damaged checkpoint: {type(problem).__name__}: {problem}") from None
    check = members.get("check")
    if check is None or check.shape or check != _checksum(text, members):
        raise ValueError(f"{path}: damaged checkpoint: wrong checksum")
    return content


def _checksum(header: str, members: dict[str, np.ndarray]) -> int:
    """The CRC-32 of the header and of every array with its dtype and shape, in the order of their names."""
    check = zlib.crc32(header.encode())
    for name in sorted(set(members) - {"header", "check"}):
        check = zlib.crc32(f"{name} {members[name].dtype} {members[name].shape}".encode(), check)
        check = zlib.crc32(np.ascontiguousarray(members[name]).tobytes(), check)
    return check


def encode(x: Any, arrays: dict[int, tuple[int, Array]]) -> Any:
    """The JSON form of numbers, strings, None, arrays, and lists, mappings, NamedTuples and dataclasses of these.

    Each array is added to ``arrays`` once: its id with its number and itself, which keeps the id from being reused.
    """
    if isinstance(x, np.generic):
        x = x.item()
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if is_array_api_obj(x):
        number, _ = arrays.setdefault(id(x), (len(arrays), x))
        return {"array": number, "host": isinstance(x, np.ndarray)}
    if isinstance(x, Mapping):
        return {"dict": [[encode(key, arrays), encode(value, arrays)] for key, value in x.items()]}
    if _is_record(type(x)):
        names = getattr(x, "_fields", None) or [field.name for field in fields(x)]
        record = {name: encode(getattr(x, name), arrays) for name in names}
        return {"type": f"{type(x).__module__}.{type(x).__qualname__}", "fields": record}
    if isinstance(x, (tuple, list)):
        return {"tuple" if isinstance(x, tuple) else "list": [encode(value, arrays) for value in x]}
    raise TypeError(f"checkpoint: no file form for {type(x).__name__}, part of the state")


def decode(x: Any, arrays: dict[str, np.ndarray], place: Place, former: Mapping[str, Kind]) -> Any:
    """The value that was encoded, bit for bit; arrays that were not on the host are copied to ``place``."""
    if not isinstance(x, dict):
        return x
    if "array" in x:
        array, xp = arrays[str(x["array"])], place.xp
        if x["host"]:
            return array
        return xp.asarray(array.copy(), dtype=getattr(xp, array.dtype.name), device=place.device)
    if "dict" in x:
        return {decode(key, arrays, place, former): decode(value, arrays, place, former) for key, value in x["dict"]}
    if "type" in x:
        kind = former.get(x["type"]) or _record(x["type"])
        return kind(**{name: decode(value, arrays, place, former) for name, value in x["fields"].items()})
    (name,) = x
    return {"tuple": tuple, "list": list}[name](decode(value, arrays, place, former) for value in x[name])


class _OtherPanel(Exception):
    """A state of a panel that has not been imported."""


def _record(name: str) -> Any:
    """The NamedTuple or dataclass of this dotted name, if its module has been imported."""
    module, _, kind = name.rpartition(".")
    if module.startswith("accelerated.") and "accelerated" not in sys.modules:
        raise _OtherPanel(name)
    record = getattr(sys.modules.get(module), kind, None)
    if not isinstance(record, type) or not _is_record(record):
        raise ValueError(f"no such kind of state here: {name}")
    return record


def _is_record(kind: type) -> bool:
    return is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def of_another_panel(path: Any, kind: str) -> str:
    """The message for a checkpoint whose state, of this type, only its panel can read."""
    panel = kind.partition(".")[0]
    return f"resume: {path} is of the panel {panel} in its own form: resume it there, or start a run from its weights"
