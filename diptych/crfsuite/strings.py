"""Constant databases of strings (CQDB), in which crfsuite's model files keep the names of labels and attributes.

A database begins with ``CQDB``, its size, 0, a number that tells the order of bytes, and length and place of the array
of names. Then come 256 tables as (place, number of buckets), and the names: number, length with a final NUL, bytes. A
table is an array of buckets (hash, place of the name), open-addressed: the name with hash h is in table h mod 256, in
the first free bucket from (h div 256) mod (number of buckets) on. There are twice as many buckets as names. Last comes
the array: the place of each name. Places count from the beginning of the database.

The hash is Bob Jenkins' ``hashlittle`` of the name with its NUL (https://burtleburtle.net/bob/c/lookup3.c, 2006).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diptych.crfsuite.binary import Binary

NAME, ORDER, TABLES = b"CQDB", 0x62445371, 256
HEADER = 24 + 8 * TABLES


def read_strings(file: Binary, start: int, count: int, what: str, encoding: str) -> list[str]:
    """The ``count`` names of the database at ``start``. Raises ValueError, naming the file and the byte."""
    size, _, order, length, place = file.part(start, NAME, 5, what)
    if order != ORDER:
        raise file.wrong(start + 12, f"{what}: expected {ORDER:#x}, the order of bytes, got {order:#x}")
    if length != count or place + 4 * count > size:
        raise file.wrong(start + 16, f"{what}: expected an array of {count} within {size} bytes, got {length}")
    places = start + file.array(start + place, "<u4", count, what).astype(np.int64)
    if count and int(places.max()) > start + size - 8:
        raise file.wrong(int(places.max()), f"{what}: lies outside of its database")
    numbers, lengths = file.numbers_at(places, what), file.numbers_at(places + 4, what)
    begins, ends = places + 8, places + 8 + lengths - 1
    bad = np.flatnonzero((numbers != np.arange(count)) | (lengths < 1) | (ends >= start + size))
    if len(bad) or int(lengths.sum()) > size:
        raise file.wrong(int(places[bad[0] if len(bad) else 0]), f"{what}: expected the names one after another")
    content, names = file.content, []
    for a, b in zip(begins.tolist(), ends.tolist(), strict=True):
        text = content[a:b]
        if content[b] or 0 in text:
            raise file.wrong(a, f"{what}: expected a name that ends with NUL, got {content[a : b + 1][-80:]!r}")
        try:
            names.append(text.decode(encoding))
        except UnicodeDecodeError:
            told = f"{what}: not {encoding.upper()}: {text[:80]!r}; --encoding names another encoding, such as latin-1"
            raise file.wrong(a, told) from None
    if len(set(names)) < count:
        raise file.wrong(start, f"{what}: expected different names")
    return names


def strings_of(names: Sequence[bytes]) -> bytes:
    """The database of names."""
    ended = [name + b"\0" for name in names]
    lengths = np.array([len(name) for name in ended], np.int64)
    begins = HEADER + np.cumsum(8 + lengths) - 8 - lengths
    head = np.stack([np.arange(len(names)), lengths], 1).astype("<u4").tobytes()
    records = b"".join(each for i, name in enumerate(ended) for each in (head[8 * i : 8 * i + 8], name))
    hashed = hashes_of(ended)
    of_table = np.argsort(hashed % TABLES, kind="stable")
    sizes = np.bincount(hashed % TABLES, minlength=TABLES).astype(np.int64)
    heads = HEADER + len(records) + 16 * (np.cumsum(sizes) - sizes)
    buckets = np.zeros((2 * len(names), 2), "<u4")
    first = 0
    for size in sizes.tolist():
        some = of_table[first : first + size]
        for i, wanted in zip(some.tolist(), (hashed[some] // TABLES % max(2 * size, 1)).tolist(), strict=True):
            while buckets[2 * first + wanted, 1]:
                wanted = (wanted + 1) % (2 * size)
            buckets[2 * first + wanted] = hashed[i], begins[i]
        first += size
    place = HEADER + len(records) + buckets.nbytes
    header = np.array([place + 4 * len(names), 0, ORDER, len(names), place * bool(names)], "<u4").tobytes()
    tables = (np.stack([heads, 2 * sizes], 1) * (sizes > 0)[:, None]).astype("<u4").tobytes()
    return NAME + header + tables + records + buckets.tobytes() + begins.astype("<u4").tobytes()


def hashes_of(keys: Sequence[bytes]) -> np.ndarray:
    """(m,) int64: ``hashlittle`` of each key, with initial value 0."""
    hashed = np.zeros(len(keys), np.int64)
    lengths = np.array([len(key) for key in keys], np.int64)
    blocks = np.maximum((lengths + 11) // 12, 1)
    for many in np.unique(blocks).tolist():
        some = np.flatnonzero(blocks == many)
        padded = np.array([keys[i] for i in some.tolist()], f"S{12 * many}")
        words = padded.view("<u4").reshape(len(some), many, 3).transpose(1, 2, 0)
        state = [0xDEADBEEF + lengths[some].astype(np.uint32) for _ in range(3)]
        for block in words[:-1]:
            state = _mixed([x + word for x, word in zip(state, block, strict=True)])
        last = _finished([x + word for x, word in zip(state, words[-1], strict=True)])
        hashed[some] = np.where(lengths[some] > 0, last, state[2])
    return hashed


def _turned(x: np.ndarray, bits: int) -> np.ndarray:
    """Bits turned to the left."""
    turned: np.ndarray = (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
    return turned


def _mixed(state: list[np.ndarray]) -> list[np.ndarray]:
    """A step between two blocks of 12 bytes."""
    a, b, c = state
    for bits in (4, 6, 8, 16, 19, 4):
        a = (a - c) ^ _turned(c, bits)
        c = c + b
        a, b, c = b, c, a
    return [a, b, c]


def _finished(state: list[np.ndarray]) -> np.ndarray:
    """The hash after the last block."""
    a, b, c = state
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _turned(b, bits)
        a, b, c = b, c, a
    return b
