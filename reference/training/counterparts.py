"""The one place where this panel asks for what is faster: counterparts of boxes, and of parts of them.

A counterpart is a subclass that answers alike by other means. It is registered for a type of piece, a type of objective
and a type of model, and taken where all three are exactly these: what a user derives gets the box itself.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar

from reference.optimizers.base import Examples, Piece, traits

__all__ = ["counterpart", "register"]

P = TypeVar("P", bound=Piece)

_KNOWN: dict[tuple[type, type, type], type] = {}


def register(piece: type, objective: type, model: type, known: type) -> None:
    """Let ``known``, a subclass of ``piece`` with the same fields, stand for it over this objective and model.

    Where not every piece or objective of these types will do, ``known`` has a class method ``fits(piece, objective)``.
    """
    _KNOWN[piece, objective, model] = known


def counterpart(piece: P, objective: Examples) -> P:
    """The piece, and each piece among its fields, as registered for this objective; itself where nothing is."""
    own = {field.name: getattr(piece, field.name) for field in fields(piece)}  # type: ignore[arg-type]
    inner = {name: counterpart(part, objective) for name, part in own.items() if isinstance(part, Piece)}
    if any(inner[name] is not own[name] for name in inner):
        piece = replace(piece, **inner)  # type: ignore[type-var]
    known = _KNOWN.get((type(piece), type(objective), type(traits(objective).model)))
    if known is None or not getattr(known, "fits", lambda *_: True)(piece, objective):
        return piece
    found: P = known(**(own | inner))
    return found
