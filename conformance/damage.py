"""Damaged files: seeded changes of valid ones, of bytes, of the members of a zip (with checksums that fit again), and
of values in JSON."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from diptych.files.localization import MAGIC

__all__ = ["damaged", "rebuilt", "spoil"]

VALUES = (
    *("1e999", "-1e999", "NaN", "null", "true", "-1", "0", "1.5", "1000000000000000000", "9" * 400, "9" * 5000),
    *('""', '"x"', r'"\ud800"', "[]", "{}", "[1, 2]", '["a", 1]', "[[[1]]]", '{"a": null}'),
    *("[" * 5000, "[" * 90 + "]" * 90),
)  # fmt: skip
NUMBERS = (b"-1", b"0", b"99", b"1" + b"0" * 18, b"9" * 400, b"1e999", b"True", b"(" * 300)


def damaged(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """One damaged copy after another, without end."""
    ways = [_bytes_changed, _number_changed]
    if zipfile.is_zipfile(io.BytesIO(content)):
        ways += [_member_changed] * 4
    elif _json(content) is not None:
        ways += [_json_changed] * 3
    while True:
        yield ways[rng.integers(len(ways))](content, rng)


def spoil(path: Path, change: str) -> None:
    """Run a statement on the fields of a .npz or .boxes file: its arrays by name, and its JSON header as ``header``."""
    if path.suffix == ".boxes":
        _spoil_boxes(path, change)
        return
    with np.load(path) as archive:
        fields: dict[str, Any] = dict(archive)
    if "header" in fields:
        fields["header"] = json.loads(str(fields["header"]))
    exec(change, {"np": np}, fields)
    if isinstance(fields.get("header"), dict):
        fields["header"] = json.dumps(fields["header"])
    with open(path, "wb") as file:
        np.savez(file, **fields)


def _spoil_boxes(path: Path, change: str) -> None:
    content = path.read_bytes()
    start = content.index(b"\n", len(MAGIC)) + 1
    header, body = json.loads(content[len(MAGIC) : start]), bytearray(content[start:])
    fields = {"header": header}
    for name, each in header["arrays"].items():
        numbers = int(np.prod(each["shape"]))
        fields[name] = np.frombuffer(body, each["dtype"], numbers, each["offset"]).reshape(each["shape"])
    exec(change, {"np": np}, fields)
    path.write_bytes(MAGIC + json.dumps(header).encode().ljust(start - len(MAGIC) - 1) + b"\n" + body)


def rebuilt(content: bytes, members: dict[str, bytes]) -> bytes:
    """The zip with these contents of its members, and a valid directory and checksums."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in {**_members(content), **members}.items():
            archive.writestr(name, each)
    return file.getvalue()


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _bytes_changed(content: bytes, rng: np.random.Generator) -> bytes:
    """Bytes turned over or drawn anew, a cut, a span twice, a span left out."""
    a, b = np.sort(rng.integers(0, len(content) + 1, 2)).tolist()
    b = min(b, a + 64)
    way = rng.integers(5)
    if way == 0:
        return content[:a]
    if way == 1:
        return content[:b] + content[a:]
    if way == 2:
        return content[:a] + content[b:]
    changed = bytearray(content)
    for at in rng.integers(0, max(len(content), 1), rng.integers(1, 4)).tolist() if content else ():
        changed[at] = int(rng.integers(256)) if way == 3 else changed[at] ^ (1 << int(rng.integers(8)))
    return bytes(changed)


def _number_changed(content: bytes, rng: np.random.Generator) -> bytes:
    """A run of digits somewhere becomes another word: shapes, sizes, heads."""
    digits = [i for i in range(len(content)) if content[i : i + 1].isdigit()]
    if not digits:
        return _bytes_changed(content, rng)
    first = last = digits[rng.integers(len(digits))]
    while content[last : last + 1].isdigit():
        last += 1
    return content[:first] + NUMBERS[rng.integers(len(NUMBERS))] + content[last:]


def _member_changed(content: bytes, rng: np.random.Generator) -> bytes:
    """The zip with a member damaged, emptied, removed or replaced by another one, or with one value of a JSON header
    changed.
    """
    members = _members(content)
    names = list(members)
    name, other = (names[rng.integers(len(names))] for _ in range(2))
    text = _header(members[name])
    way = rng.integers(6)
    if text is not None and way < 4:
        changed = _json_changed(text.encode(), rng).decode(errors="replace").replace("\0", " ")
        file = io.BytesIO()
        np.save(file, np.array(changed))
        return rebuilt(content, {name: file.getvalue()})
    if way == 5:
        return rebuilt(content, {name: [b"", b"text", members[other]][rng.integers(3)]})
    return rebuilt(content, {name: [_bytes_changed, _number_changed][way % 2](members[name], rng)})


def _json_changed(content: bytes, rng: np.random.Generator) -> bytes:
    """A value somewhere in a JSON text, or in one of its lines, becomes another; or a key is left out."""
    lines = content.split(b"\n")
    rows = [i for i, line in enumerate(lines) if _json(line) is not None]
    k = rows[rng.integers(len(rows))] if rows else 0
    found = _json(lines[k]) if rows else _json(content)
    places = list(_places(found))
    if not places:
        return VALUES[rng.integers(len(VALUES))].encode()
    holder, key = places[rng.integers(len(places))]
    if isinstance(holder, dict) and rng.integers(8) == 0:
        del holder[key]
        text = json.dumps(found)
    else:
        holder[key] = "@here@"
        text = json.dumps(found).replace('"@here@"', VALUES[rng.integers(len(VALUES))])
    return text.encode() if not rows else b"\n".join([*lines[:k], text.encode(), *lines[k + 1 :]])


def _places(x: Any) -> Iterator[tuple[Any, Any]]:
    """Where values are: (holder, key or index)."""
    for key in list(x) if isinstance(x, dict) else range(min(len(x), 20)) if isinstance(x, list) else ():
        yield x, key
        yield from _places(x[key])


def _json(content: bytes) -> Any:
    """The JSON value of a text or of one of its lines; None if none is an object or a list."""
    for text in (content, *content.split(b"\n")[:4]):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, (dict, list)):
            return found
    return None


def _header(member: bytes) -> str | None:
    """The JSON in an array of one string."""
    try:
        array = np.load(io.BytesIO(member), allow_pickle=False)
    except ValueError:
        return None
    return str(array) if array.ndim == 0 and array.dtype.kind == "U" and str(array).startswith("{") else None
