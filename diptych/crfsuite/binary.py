"""Files of little-endian numbers, untrusted: what lies outside of the file is an error that names file and byte."""

from __future__ import annotations

from typing import Any

import numpy as np


class Binary:
    """The content of a file, and its numbers of 4 bytes at any places."""

    def __init__(self, path: str, content: bytes) -> None:
        self.path, self.content = path, content
        self._bytes = np.frombuffer(content, np.uint8)

    def wrong(self, place: int, problem: str) -> ValueError:
        """The error about a place."""
        return ValueError(f"{self.path}: not a readable model file of crfsuite: byte {place}: {problem}")

    def array(self, place: int, dtype: Any, count: int, what: str) -> np.ndarray:
        """``count`` items of a type, one after another. Raises ValueError if the file is too short."""
        size = np.dtype(dtype).itemsize * count
        if place < 0 or place + size > len(self.content):
            told = f"expected {count} {what} in {size} bytes, and the file has {len(self.content)} bytes"
            raise self.wrong(place, told)
        return np.frombuffer(self.content, dtype, count, place)

    def numbers(self, place: int, count: int, what: str) -> list[int]:
        """``count`` numbers, one after another."""
        numbers: list[int] = self.array(place, "<u4", count, what).tolist()
        return numbers

    def numbers_at(self, places: np.ndarray, what: str) -> np.ndarray:
        """(m,) int64: the number at each of the places."""
        outside = np.flatnonzero((places < 0) | (places > len(self.content) - 4))
        if len(outside):
            raise self.wrong(int(places[outside[0]]), f"{what} lies outside of the file")
        numbers = np.zeros(len(places), np.int64)
        for k in range(4):
            numbers |= self._bytes[places + k].astype(np.int64) << (8 * k)
        return numbers

    def part(self, place: int, name: bytes, header: int, what: str) -> list[int]:
        """The numbers in the header of a part of the file, first its size in bytes; ``name`` stands before them."""
        size, *others = self.numbers(place + 4, header, f"numbers of the {what}")
        if self.content[place : place + 4] != name:
            got = self.content[place : place + 4]
            raise self.wrong(place, f"expected the {what}, which begin with {name!r}, got {got!r}")
        if size < 4 + 4 * header or place + size > len(self.content):
            raise self.wrong(place + 4, f"{what}: expected a size within the file, got {size}")
        return [size, *others]
