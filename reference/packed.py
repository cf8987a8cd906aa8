"""Packed data: records of named, read-only arrays, which are checked when they are made.

Functions that read packed data do not check it. A record is therefore checked when it is packed, changed by
``_replace``, copied or unpickled. NumPy arrays in it are made read-only; they are copied first unless nothing else
refers to them. Arrays of other libraries cannot be made read-only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

__all__ = ["Packed", "check_forests", "check_indices", "check_offsets", "check_range", "lock"]


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """A record of read-only fields. A subclass is a frozen dataclass whose :meth:`validate` checks its fields.

    as_given: names of the fields that belong to the user and are neither made read-only nor copied. not_copied: names
    of the fields that may be mapped from a file and are made read-only without a copy. counted: what the last of
    ``offsets`` counts, in words for the repr.
    """

    as_given: ClassVar[tuple[str, ...]] = ()
    not_copied: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for each in fields(self):  # a field that is annotated as a tuple may be given as a list
            several, given = str(each.type).startswith("tuple"), getattr(self, each.name)
            if several and not isinstance(given, (list, tuple)) and not (given is None and "None" in str(each.type)):
                raise TypeError(f"{each.name}: expected a tuple, got {type(given).__name__}")
        for name in (each.name for each in fields(self) if each.name not in self.as_given):
            object.__setattr__(self, name, _locked(name, getattr(self, name), copied=name not in self.not_copied))
        self.validate()

    def validate(self) -> None:
        """Raise ValueError or TypeError that names the first invalid field."""
        raise TypeError(f"{type(self).__name__} must define validate()")

    def __repr__(self) -> str:
        """Sizes, and no arrays: ``ChainData(n=2, positions=7)``. For subclasses that are decorated with repr=False."""
        sizes = {"n": getattr(self, "n", None), self.counted: getattr(self, "offsets", (None,))[-1]}
        sizes |= {each.name: getattr(self, each.name) for each in fields(self) if each.type in ("int", int)}
        shown = (f"{name}={int(size)}" for name, size in sizes.items() if name and size is not None)
        return f"{type(self).__name__}({', '.join(shown)})"

    def _replace(self, **changes: Any) -> Self:
        """The same record with some fields replaced, checked."""
        return replace(self, **changes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, each.name) for each in fields(self))

    @classmethod
    def _trusted(cls, **values: Any) -> Self:
        """A record of fields that were checked before; they are neither checked nor made read-only."""
        made = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made


def lock(x: Any) -> Any:
    """An array that nothing else refers to, made read-only if it is NumPy's."""
    if isinstance(x, np.ndarray):
        x.flags.writeable = False
    return x


def _locked(name: str, value: Any, copied: bool) -> Any:
    """An array that cannot be written to, not even by another name; a list of arrays as a tuple; other values
    unchanged.
    """
    if type(value) in (list, tuple):
        return tuple(_locked(f"{name}[{i}]", each, copied) for i, each in enumerate(value))
    if not isinstance(value, np.ndarray):
        return value
    if np.ma.is_masked(value):
        raise ValueError(f"{name}: expected numbers throughout, got a masked array")
    if not copied:
        return lock(value.view())
    ours = type(value) is np.ndarray and value.flags.owndata and not value.flags.writeable
    return value if ours else lock(np.array(value, order="C"))


def check_indices(name: str, x: Any, shape: tuple[int, ...] | None = None) -> None:
    """Raise TypeError unless x is a NumPy array of int64, ValueError unless it has the shape; None: (n,)."""
    if not isinstance(x, np.ndarray) or x.dtype != np.int64:
        raise TypeError(f"{name}: expected a NumPy array of int64, got {getattr(x, 'dtype', type(x).__name__)}")
    if x.ndim != 1 if shape is None else x.shape != shape:
        raise ValueError(f"{name}: expected shape {'(n,)' if shape is None else shape}, got {x.shape}")


def check_offsets(name: str, offsets: Any, end: int, of: str, least: int = 0) -> None:
    """Raise unless offsets (n + 1,) rise from 0 to ``end``, the number of ``of``, in steps of at least ``least``."""
    check_indices(name, offsets)
    wrong = len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != end or np.any(offsets[1:] < offsets[:-1])
    if wrong or np.any(np.diff(offsets) < least):
        steps = f" by at least {least} each" if least else ""
        raise ValueError(
            f"{name}: expected numbers that rise from 0 to {end}, the number of {of}{steps}, got {offsets}"
        )


def check_range(name: str, x: np.ndarray, least: int, below: int) -> None:
    """Raise ValueError unless all numbers of x are in least..below - 1."""
    if x.size and not least <= x.min() <= x.max() < below:
        raise ValueError(f"{name}: expected numbers in {least}..{below - 1}, got {x.min()}..{x.max()}")


def check_forests(name: str, parents: np.ndarray, offsets: np.ndarray) -> None:
    """Raise ValueError unless parents (N,) make a forest of each part offsets[i]:offsets[i + 1]. Parents are numbered
    from the start of their part; -1 is a root.
    """
    lengths, N = np.diff(offsets), len(parents)
    part = np.repeat(np.arange(len(lengths)), lengths)
    for v in np.flatnonzero((parents < -1) | (parents >= lengths[part]))[:1]:
        i = part[v]
        raise ValueError(f"{name}: expected numbers in -1..{lengths[i] - 1} in tree {i}, got {parents[v]}")
    above = np.append(np.where(parents < 0, N, parents + offsets[part]), N)
    for _ in range(int(lengths.max(initial=0)).bit_length()):  # 1, 2, 4, ... edges up
        above = above[above]
    for v in np.flatnonzero(above < N)[:1]:
        raise ValueError(f"{name}: expected a forest, got a cycle above node {v - offsets[part[v]]} of tree {part[v]}")
