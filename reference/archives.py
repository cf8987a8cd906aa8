"""Zip archives, ``.npz`` and ``.npy`` files and JSON that may come from anyone: read without pickle, and within a
bound.

Compressed members may hold a thousand times what the file has. What they hold together may be at most ``most_bytes``
(:data:`MOST_BYTES`
where not said), or as much as the file itself where that is more: the archive's directory is held against that before
anything is
inflated, and what is inflated against the directory. An array's shape is held against the bytes of its member before
there is an array.
"""

from __future__ import annotations

import io
import json
import math
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reference.arrays import integer

__all__ = ["MOST_BYTES", "bound_of", "parse_json", "read_npy", "read_npz", "read_zip"]

MOST_BYTES = 1 << 30
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile reads these piece by piece, others inflate at once
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def bound_of(path: str | Path, most_bytes: int) -> int:
    """What the members of an archive may hold together: ``most_bytes``, or the size of the file where that is more."""
    return max(integer("most_bytes", most_bytes, 0), Path(path).stat().st_size)


def read_zip(
    path: str | Path,
    wrong: str = "not a zip that can be read",
    choose: Callable[[list[str]], Iterable[str]] = lambda names: names,
    *,
    most_bytes: int = MOST_BYTES,
) -> Iterator[tuple[str, bytes]]:
    """The names and contents of the members that ``choose`` chooses among all names; wrong: what errors say of the
    file.

    Raises
    ------
    ValueError
        Naming the file: not there, no zip or a damaged one, a name twice, members that are encrypted or neither stored
        nor deflated; more
        bytes in the members than the bound.
    OSError
        The file cannot be read.
    """
    if not Path(path).exists():
        raise ValueError(f"{path}: no such file")
    bound, content = bound_of(path, most_bytes), io.BytesIO(Path(path).read_bytes())
    wrong = f"{path}: {wrong}"
    try:
        archive = zipfile.ZipFile(content)
    except Exception as problem:  # a damaged directory makes zipfile raise nearly anything
        raise ValueError(f"{wrong}: {_said(problem)}") from None
    held = {info.filename: info for info in archive.infolist()}
    if len(held) < len(archive.infolist()):
        raise ValueError(f"{wrong}: two members of one name")
    chosen = list(choose(list(held)))
    total = sum(held[name].file_size for name in chosen)
    if total > bound:
        raise ValueError(
            f"{path}: its members hold {total} bytes, more than most_bytes = {most_bytes} and the file's size"
        )
    for name in chosen:
        if held[name].compress_type not in METHODS:
            raise ValueError(f"{wrong}: {name}: expected a member that is stored or deflated, got another compression")
        try:
            with archive.open(name) as member:  # reads what the directory says, and no more
                inflated = member.read(held[name].file_size)
        except Exception as problem:  # zlib's errors, and zipfile's for what is encrypted or cut off
            raise ValueError(f"{wrong}: {name}: {_said(problem)}") from None
        if len(inflated) < held[name].file_size:
            raise ValueError(f"{wrong}: {name}: expected {held[name].file_size} bytes, got {len(inflated)}")
        yield name, inflated


def read_npz(path: str | Path, what: str, *, most_bytes: int = MOST_BYTES) -> dict[str, np.ndarray]:
    """All arrays of an npz file, in the machine's byte order.

    Raises
    ------
    ValueError
        Naming the file and the array: as of :func:`read_zip`; members that are not arrays, or not arrays of numbers or
        strings; shapes that
        their bytes do not fit; strings that are not Unicode.
    OSError
        The file cannot be read.
    """
    wrong = f"not a readable {what}"
    if Path(path).is_file() and not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: {wrong}: no npz archive")
    arrays: dict[str, np.ndarray] = {}
    for name, content in read_zip(path, wrong, most_bytes=most_bytes):
        field = name.removesuffix(".npy")
        if field in arrays:
            raise ValueError(f"{path}: {wrong}: {field}: two members of one name")
        arrays[field] = _array(f"{path}: {wrong}: {field}", content)
    return arrays


def read_npy(path: str | Path) -> np.ndarray:
    """The array of an ``.npy`` file; ValueError naming the file, as of :func:`read_npz`, OSError if it cannot be
    read."""
    return _array(f"{path}: not a readable .npy", Path(path).read_bytes())


def parse_json(name: str, text: str | bytes) -> Any:
    """What JSON says; ValueError naming it for what is no JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{name}: not JSON: too many brackets within one another") from None
    except ValueError as problem:
        raise ValueError(f"{name}: not JSON: {problem}") from None


def _array(name: str, content: bytes) -> np.ndarray:
    """The array of a member in the npy format; its shape is checked before there is an array."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise ValueError(f"{name}: expected an array in numpy's format, got {content[:8]!r}") from None
    if version not in HEADERS:
        raise ValueError(f"{name}: expected numpy's format 1.0 or 2.0, got {version[0]}.{version[1]}")
    try:
        with warnings.catch_warnings():  # a damaged header may be odd Python
            warnings.simplefilter("ignore")
            shape, fortran_order, dtype = HEADERS[version](file)
    except Exception as problem:  # the header is Python source, and its parser raises nearly anything
        raise ValueError(f"{name}: damaged header: {_said(problem)}") from None
    if dtype.kind not in "biufcSUmM" or dtype.itemsize == 0:
        raise ValueError(f"{name}: expected numbers or strings, got {dtype} (objects would be pickled)")
    if any(isinstance(side, bool) or side < 0 for side in shape):
        raise ValueError(f"{name}: expected lengths >= 0, got shape {shape}")
    found, expected = len(content) - file.tell(), math.prod(shape) * dtype.itemsize
    if found != expected:
        raise ValueError(f"{name}: expected {expected} bytes for {dtype} of shape {shape}, got {found}")
    flat = np.frombuffer(content, dtype, expected // dtype.itemsize, file.tell()) if expected else np.zeros(0, dtype)
    if dtype.kind == "b" and np.any(flat.view(np.uint8) > 1):
        raise ValueError(f"{name}: expected booleans, got bytes other than 0 and 1")
    flat = flat.astype(dtype.newbyteorder("="))
    if dtype.kind == "U":
        points = flat.view(np.uint32)
        wrong = points[(points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))]
        if wrong.size:
            raise ValueError(f"{name}: expected Unicode, got the code point {wrong[0]:#x}")
    try:
        return flat.reshape(shape[::-1]).T if fortran_order else flat.reshape(shape)
    except ValueError as problem:  # too many dimensions, or one of them 0 and the others beyond what an index may be
        raise ValueError(f"{name}: {problem}") from None


def _said(problem: Exception) -> str:
    return f"{problem}" or type(problem).__name__
