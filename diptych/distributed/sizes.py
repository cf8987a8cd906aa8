"""Bytes of the arrays in objects that are sent or kept."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["nbytes_of"]


def nbytes_of(data: Any) -> int:
    """Bytes of the arrays in packed data."""
    if hasattr(data, "nbytes"):
        broadcast = getattr(data, "strides", None) == (0,)  # one number for all entries
        return int(data.itemsize if broadcast else data.nbytes)
    if dataclasses.is_dataclass(data):
        return sum(nbytes_of(getattr(data, field.name)) for field in dataclasses.fields(data))
    if isinstance(data, tuple | list):
        return sum(map(nbytes_of, data))
    return 0
