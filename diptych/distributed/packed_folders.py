"""Packed data in folders, one for each partition: a loader that reads no text and extracts no features."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from reference.archives import parse_json
from reference.arrays import Place
from reference.files import save_bytes
from reference.packed import Packed

RECORD = "record.json"
PLACE = Place.of(np.zeros(1))


def save_packed(folder: str | Path, data: Packed) -> None:
    """Write packed data as a new folder: an ``.npy`` file for each array, and ``record.json`` for the rest.

    Parameters
    ----------
    folder : path
        It must not exist. It appears when all files have been written.
    data : packed data
        As ``model.pack`` returns it, with NumPy arrays.

    Raises
    ------
    FileExistsError
        The folder exists.
    TypeError
        A field cannot be saved, such as a Gram matrix or an array of another library.
    """
    folder = Path(folder)
    if folder.exists():
        raise FileExistsError(17, "expected a new folder, it exists", str(folder))
    part = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.part")
    part.mkdir(parents=True)
    try:
        arrays: list[np.ndarray] = []
        record = _form("data", data, arrays)
        for number, array in enumerate(arrays):
            np.save(part / f"{number}.npy", array, allow_pickle=False)
        save_bytes(part / RECORD, json.dumps(record).encode())
        os.replace(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@dataclass(frozen=True)
class PackedFolder:
    """The packed data of a folder that :func:`save_packed` wrote.

    Arrays are mapped into memory. The records copy and check them, except large features, which stay in the file.

    Parameters
    ----------
    path : str

    Raises
    ------
    ValueError
        Naming the folder: it does not exist, or its files are not those of packed data.
    """

    path: str

    def __call__(self) -> Packed:
        try:
            record = parse_json(RECORD, (Path(self.path) / RECORD).read_text(encoding="utf-8"))
            data = _value(record, Path(self.path))
        except FileNotFoundError as problem:
            raise ValueError(f"{self.path}: no packed data: no file {Path(problem.filename).name}") from None
        except (ValueError, TypeError, LookupError) as problem:
            raise ValueError(f"{self.path}: damaged packed data: {problem}") from None
        if not isinstance(data, Packed):
            raise ValueError(f"{self.path}: expected a record of packed data, got {type(data).__name__}")
        return data


def _form(name: str, x: Any, arrays: list[np.ndarray]) -> Any:
    """The JSON form of a value; its arrays are appended to ``arrays``."""
    if x is None or isinstance(x, bool | int | float | str):
        return x
    if isinstance(x, np.ndarray) and x.dtype != object:
        arrays.append(x)
        return {"array": len(arrays) - 1}
    if isinstance(x, Packed):
        forms = {each.name: _form(f"{name}.{each.name}", getattr(x, each.name), arrays) for each in fields(x)}
        return {"kind": type(x).__name__, "fields": forms}
    if isinstance(x, Place) and x.xp is PLACE.xp:
        return {"place": np.dtype(x.dtype).name}
    if isinstance(x, tuple | list) and not isinstance(x, Place):
        return {"tuple": [_form(f"{name}[{i}]", each, arrays) for i, each in enumerate(x)]}
    raise TypeError(f"{name}: {type(x).__name__} cannot be saved")


def _value(x: Any, folder: Path) -> Any:
    """The value of a JSON form."""
    if not isinstance(x, dict):
        return x
    if "array" in x:
        return np.load(folder / f"{int(x['array'])}.npy", mmap_mode="r", allow_pickle=False)
    if "place" in x:
        return PLACE._replace(dtype=np.dtype(str(x["place"])))
    if "tuple" in x:
        return tuple(_value(each, folder) for each in x["tuple"])
    kinds = {kind.__name__: kind for kind in _kinds(Packed)}
    if x["kind"] not in kinds:
        raise ValueError(f"no kind of packed data: {x['kind']!r:.80}")
    return kinds[x["kind"]](**{name: _value(each, folder) for name, each in x["fields"].items()})


def _kinds(base: type) -> Iterator[type]:
    kinds: list[type] = base.__subclasses__()
    for kind in kinds:
        yield kind
        yield from _kinds(kind)
