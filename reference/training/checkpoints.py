"""Checkpoint files: what a run has come to, as an ``.npz`` of arrays and one JSON header; no pickle, and nothing is
imported to read one.

States have many forms, which nothing but their optimiser knows; a checksum over the header and all arrays tells damage
from a state.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from reference.archives import parse_json, read_npz
from reference.arrays import Place, host
from reference.files import replacing

__all__ = ["decode", "encode", "read_checkpoint", "write_checkpoint"]

FORMAT = 2
WHAT = "checkpoint of diptych"


def write_checkpoint(path: str | Path, content: dict[str, Any]) -> None:
    """Write a dictionary of what :func:`encode` takes; an older file at ``path`` is replaced in one piece."""
    arrays: list[np.ndarray] = []
    known: dict[int, tuple[int, Any]] = {}
    header = json.dumps(
        {"checkpoint": FORMAT, **{name: encode(value, arrays, known) for name, value in content.items()}}
    )
    members: dict[str, Any] = {str(number): array for number, array in enumerate(arrays)}
    with replacing(path) as file:
        np.savez(file, header=np.array(header), check=np.array(_checksum(header, members)), **members)


def read_checkpoint(path: str | Path, place: Place) -> dict[str, Any]:
    """The dictionary again, its arrays in ``place`` where they were not on the host.

    Raises
    ------
    ValueError
        Naming the file: no checkpoint, of another format, damaged, or with states of a kind that is not known here.
    """
    members = read_npz(path, WHAT)
    try:
        text = str(members["header"])
        header = parse_json("header", text)
        found = header.pop("checkpoint")
    except (KeyError, ValueError, AttributeError, TypeError):
        raise ValueError(f"{path}: not a {WHAT}; found {', '.join(sorted(members)) or 'nothing'}") from None
    if found != FORMAT:
        raise ValueError(f"{path}: checkpoint of format {found!r}, this version of diptych reads format {FORMAT}")
    try:
        content = {name: decode(value, members, place) for name, value in header.items()}
    except _OtherPanel as problem:
        raise ValueError(f"resume: {path} has a state of {problem}: resume it in its own panel") from None
    except Exception as problem:  # records of any kind are made of what the file says
        raise ValueError(f"{path}: damaged checkpoint: {type(problem).__name__}: {problem}") from None
    check = members.get("check")
    if check is None or check.shape or check != _checksum(text, members):
        raise ValueError(f"{path}: damaged checkpoint: its checksum is another")
    return content


def _checksum(header: str, members: dict[str, np.ndarray]) -> int:
    """The CRC-32 of the header and of every array with its dtype and shape, in the order of their names."""
    check = zlib.crc32(header.encode())
    for name in sorted(set(members) - {"header", "check"}):
        check = zlib.crc32(f"{name} {members[name].dtype} {members[name].shape}".encode(), check)
        check = zlib.crc32(np.ascontiguousarray(members[name]).tobytes(), check)
    return check


def encode(x: Any, arrays: list[np.ndarray], known: dict[int, tuple[int, Any]]) -> Any:
    """Numbers, strings, None, lists, mappings, arrays, NamedTuples and dataclasses of such as JSON; arrays go to
    ``arrays``, once each.

    known: id of an array to its number and to itself, so that no other gets this id.
    """
    if isinstance(x, np.generic):
        x = x.item()
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    if is_array_api_obj(x):
        if id(x) not in known:
            known[id(x)] = len(arrays), x
            arrays.append(host(x))
        return {"array": known[id(x)][0], "host": isinstance(x, np.ndarray)}
    if isinstance(x, Mapping):
        return {"dict": [[encode(key, arrays, known), encode(value, arrays, known)] for key, value in x.items()]}
    if isinstance(x, (tuple, list)):
        items = [encode(value, arrays, known) for value in x]
        if hasattr(x, "_fields"):
            return {
                "type": f"{type(x).__module__}.{type(x).__qualname__}",
                "fields": dict(zip(x._fields, items, strict=True)),
            }
        return {"tuple" if isinstance(x, tuple) else "list": items}
    if is_dataclass(x) and not isinstance(x, type):
        record = {field.name: encode(getattr(x, field.name), arrays, known) for field in fields(x)}
        return {"type": f"{type(x).__module__}.{type(x).__qualname__}", "fields": record}
    raise TypeError(f"checkpoint: no file form for {type(x).__name__}, part of the state")


def decode(x: Any, arrays: dict[str, np.ndarray], place: Place) -> Any:
    """What was encoded: equal numbers bit for bit."""
    if not isinstance(x, dict):
        return x
    if "array" in x:
        array = arrays[str(x["array"])]
        return array if x["host"] else _in_place(array, place)
    if "dict" in x:
        return {decode(key, arrays, place): decode(value, arrays, place) for key, value in x["dict"]}
    if "type" in x:
        kind = _record(x["type"])
        return kind(**{name: decode(value, arrays, place) for name, value in x["fields"].items()})
    (name,) = x
    return {"tuple": tuple, "list": list}[name](decode(value, arrays, place) for value in x[name])


def _in_place(array: np.ndarray, place: Place) -> Any:
    """An array as it was: of the dtype that it has."""
    return place.xp.asarray(array.copy(), dtype=getattr(place.xp, array.dtype.name), device=place.device)


class _OtherPanel(Exception):
    """A state of a panel that is not in use here."""


def _record(name: str) -> Any:
    """The NamedTuple or dataclass of this dotted name, if its module has been imported."""
    module, _, kind = name.rpartition(".")
    if module.startswith("accelerated.") and "accelerated" not in sys.modules:
        raise _OtherPanel(name)
    found = getattr(sys.modules.get(module), kind, None)
    if not isinstance(found, type) or not (
        is_dataclass(found) or (issubclass(found, tuple) and hasattr(found, "_fields"))
    ):
        raise ValueError(f"no such kind of state here: {name}")
    return found
