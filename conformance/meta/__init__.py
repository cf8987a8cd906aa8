"""Tests of the tests: backends with one known mistake each, and the proof that the suite catches it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["with_ops"]


def with_ops(structure: type, **functions: Any) -> type:
    """The structure with other functions in the place of some of its module's."""
    ops = SimpleNamespace(**{**vars(structure.ops), **functions})  # type: ignore[attr-defined]
    return type(structure.__name__, (structure,), {"ops": ops})
