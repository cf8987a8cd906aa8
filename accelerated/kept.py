"""Values that are computed once for an object, and kept as long as the object."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Kept"]

T = TypeVar("T")


class Kept(Generic[T]):
    """One value of type T for each owner. Owners are told apart by identity; a value must not refer to its owner."""

    def __init__(self) -> None:
        self._values: dict[int, T] = {}

    def get(self, owner: Any) -> T | None:
        return self._values.get(id(owner))

    def put(self, owner: Any, value: T) -> T:
        """Keep this value, in place of an earlier one."""
        if id(owner) not in self._values:
            weakref.finalize(owner, self._values.pop, id(owner))
        self._values[id(owner)] = value
        return value

    def once(self, owner: Any, make: Callable[[], T]) -> T:
        """The kept value, or the result of ``make``."""
        return self._values[id(owner)] if id(owner) in self._values else self.put(owner, make())
