"""Untrusted zip archives, ``.npz``, ``.npy``, JSON and text files: read without pickle, and within a bound of memory.

Compressed members may inflate to a thousand times the size of the file. The sizes of all members must not exceed
``most_bytes`` (default :data:`MOST_BYTES`) or the size of the file, whichever is larger. The archive's directory is
checked before anything is inflated; inflated members are checked against the directory. The shape of an array is
checked against the bytes of its member before the array is made.
"""

from __future__ import annotations

import codecs
import io
import json
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reference.arrays import integer

__all__ = [
    "LINE_END",
    "MOST_BYTES",
    "bound_of",
    "codec_of",
    "decode_text",
    "parse_json",
    "read_npy",
    "read_npz",
    "read_zip",
    "split_lines",
]

MOST_BYTES = 1 << 30
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile reads these in pieces, and inflates others at once
LINE_END = re.compile(r"\r\n|\r|\n")
MARKS = {"utf-8-sig": (codecs.BOM_UTF8,), "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)}
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def bound_of(path: str | Path, most_bytes: int) -> int:
    """The bound on the bytes of all members: ``most_bytes`` or the size of the file, whichever is larger."""
    return max(integer("most_bytes", most_bytes, 0), Path(path).stat().st_size)


def read_zip(
    path: str | Path,
    wrong: str = "not a zip that can be read",
    choose: Callable[[list[str]], Iterable[str]] = lambda names: names,
    *,
    most_bytes: int = MOST_BYTES,
) -> Iterator[tuple[str, bytes]]:
    """The names and contents of some members of a zip.

    Parameters
    ----------
    path : str or Path
    wrong : str
        The start of error messages on a file that cannot be read.
    choose : callable
        From the names of all members to the names of those to read.
    most_bytes : int
        The bound on the bytes of the chosen members; see :func:`bound_of`.

    Raises
    ------
    ValueError
        Naming the file: it does not exist, is not a zip or is damaged; a name occurs twice; a member is encrypted or
        neither stored nor deflated; the members exceed the bound.
    OSError
        The file cannot be read.
    """
    if not Path(path).exists():
        raise ValueError(f"{path}: no such file")
    bound, content = bound_of(path, most_bytes), io.BytesIO(Path(path).read_bytes())
    wrong = f"{path}: {wrong}"
    try:
        archive = zipfile.ZipFile(content)
    except Exception as problem:  # on a damaged directory zipfile raises many kinds of errors
        raise ValueError(f"{wrong}: {_message(problem)}") from None
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
            with archive.open(name) as member:  # reads no more than the directory says
                inflated = member.read(held[name].file_size)
        except Exception as problem:  # errors of zlib, and of zipfile for encrypted or truncated members
            raise ValueError(f"{wrong}: {name}: {_message(problem)}") from None
        if len(inflated) < held[name].file_size:
            raise ValueError(f"{wrong}: {name}: expected {held[name].file_size} bytes, got {len(inflated)}")
        yield name, inflated


def read_npz(path: str | Path, what: str, *, most_bytes: int = MOST_BYTES) -> dict[str, np.ndarray]:
    """All arrays of an npz file, in the machine's byte order.

    Raises
    ------
    ValueError
        Naming the file and the array: the errors of :func:`read_zip`; a member is not an array of numbers or strings;
        its bytes do not fit its shape; a string is not Unicode.
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
    """The array of an ``.npy`` file. Raises ValueError, as :func:`read_npz`, and OSError if it cannot be read."""
    return _array(f"{path}: not a readable .npy", Path(path).read_bytes())


def parse_json(name: str, text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError with ``name`` if the text is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(f"{name}: not JSON: too many brackets within one another") from None
    except ValueError as problem:
        raise ValueError(f"{name}: not JSON: {problem}") from None


def decode_text(name: str, content: bytes, encoding: str | None = None, hint: str = "") -> str:
    """The text of a file in the encoding of :func:`codec_of`, without its byte order mark.

    Raises
    ------
    ValueError
        An unknown encoding; with name and line, a byte that does not fit the encoding (``hint`` is added) and NUL.
    """
    codec = codec_of(content, encoding)
    if not codec.startswith("utf") and any(map(content.startswith, MARKS.values())):
        raise ValueError(f"{name}, line 1: expected {codec}, got the byte order mark of UTF-8 or UTF-16{hint}")
    try:
        text = content.decode(codec)
    except UnicodeDecodeError as problem:
        line = len(split_lines(problem.object[: problem.start].decode(codec, "replace")))
        shown = codec.upper().removesuffix("-SIG")
        wrong = f"{name}, line {line}: not {shown}: byte {problem.object[problem.start]:#04x}"
        raise ValueError(f"{wrong}{hint}") from None
    if "\0" in text:
        line = len(split_lines(text.partition("\0")[0]))
        raise ValueError(f"{name}, line {line}: expected text, got a NUL byte, as in UTF-16 without its mark{hint}")
    return text


def codec_of(content: bytes, encoding: str | None = None) -> str:
    """Python's name of the encoding of a text, which also writes its byte order mark if there is one.

    encoding: None for UTF-8, or UTF-16 with a byte order mark. ValueError if it is unknown.
    """
    try:
        codec = "utf-8" if encoding is None else codecs.lookup(encoding).name
        "a".encode(codec)
    except (LookupError, ValueError):
        raise ValueError(f"encoding: expected one such as utf-8, latin-1 or utf-16, got {encoding!r:.80}") from None
    for marked, marks in MARKS.items():
        if content.startswith(marks) and (encoding is None or marked.startswith(codec[:6])):  # utf-16 of utf-16-le
            return marked
    return codec


def split_lines(text: str) -> list[str]:
    r"""The lines of a text, without their ends: ``\n``, ``\r\n`` or ``\r``, and no other character ends a line."""
    return LINE_END.split(text) if "\r" in text else text.split("\n")


def _array(name: str, content: bytes) -> np.ndarray:
    """The array of a member in the npy format; its shape is checked before the array is made."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise ValueError(f"{name}: expected an array in numpy's format, got {content[:8]!r}") from None
    if version not in HEADERS:
        raise ValueError(f"{name}: expected numpy's format 1.0 or 2.0, got {version[0]}.{version[1]}")
    try:
        with warnings.catch_warnings():  # a damaged header may be invalid Python
            warnings.simplefilter("ignore")
            shape, fortran_order, dtype = HEADERS[version](file)
    except Exception as problem:  # the header is Python source, and its parser raises many kinds of errors
        raise ValueError(f"{name}: damaged header: {_message(problem)}") from None
    if dtype.kind not in "biufcSUmM" or dtype.itemsize == 0:
        raise ValueError(f"{name}: expected numbers or strings, got {dtype} (objects would be pickled)")
    if any(isinstance(side, bool) or side < 0 for side in shape):
        raise ValueError(f"{name}: expected lengths >= 0, got shape {shape}")
    size, expected = len(content) - file.tell(), math.prod(shape) * dtype.itemsize
    if size != expected:
        raise ValueError(f"{name}: expected {expected} bytes for {dtype} of shape {shape}, got {size}")
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


def _message(problem: Exception) -> str:
    return f"{problem}" or type(problem).__name__
