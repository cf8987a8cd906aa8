"""Counterparts of boxes and of their parts: the only place where this panel looks for faster code.

A counterpart is a subclass that computes the same results in another way. It is registered for a type of piece, a type
of objective and a type of model (or any model), and used only for exactly these types: subclasses of them get the box
itself.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar

from reference.optimizers.base import Examples, Piece, traits

__all__ = ["counterpart", "register"]

P = TypeVar("P", bound=Piece)

_SUBCLASSES: dict[tuple[type, type, type | None], type] = {}


def register(piece: type, objective: type, model: type | None, subclass: type) -> None:
    """Use ``subclass``, a subclass of ``piece`` with the same fields, for this type of objective and of model (None: of
    any model).

    If it does not support every piece or objective of these types, it has a class method ``fits(piece, objective)``.
    """
    _SUBCLASSES[piece, objective, model] = subclass


def counterpart(piece: P, objective: Examples) -> P:
    """The counterpart of a piece, and of each piece among its fields; the piece itself if none is registered."""
    parts = {field.name: getattr(piece, field.name) for field in fields(piece)}  # type: ignore[arg-type]
    inner = {name: counterpart(part, objective) for name, part in parts.items() if isinstance(part, Piece)}
    if any(inner[name] is not parts[name] for name in inner):
        piece = replace(piece, **inner)  # type: ignore[type-var]
    models = type(traits(objective).model), None
    keys = [(type(piece), type(objective), model) for model in models]
    subclass = next((_SUBCLASSES[key] for key in keys if key in _SUBCLASSES), None)
    if subclass is None or not getattr(subclass, "fits", lambda *_: True)(piece, objective):
        return piece
    result: P = subclass(**(parts | inner))
    return result
