"""Counterparts of boxes and of their parts: the only place where this panel looks for faster code.

A counterpart is a subclass that computes the same results in another way. It is registered for a type of algorithm, a
type of objective and a type of model (or any model), and used only for exactly these types: subclasses of them get the
box itself.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from reference.optimizers.base import Algorithm, Examples

__all__ = ["counterpart", "register"]

P = TypeVar("P", bound=Algorithm)

_SUBCLASSES: dict[tuple[type, type, type | None], type] = {}


def register(algorithm: type, objective: type, model: type | None, subclass: type) -> None:
    """Use ``subclass``, a subclass of ``algorithm`` with the same fields, for this type of objective and of model.

    model: None for any model. If the subclass does not support every algorithm or objective of these types, it has a
    class method ``fits(algorithm, objective)``.
    """
    _SUBCLASSES[algorithm, objective, model] = subclass


def counterpart(algorithm: P, objective: Examples) -> P:
    """The counterpart of an algorithm, and of each one among its fields; the algorithm itself if none is registered."""
    models = type(getattr(objective, "model", None)), None

    def replaced(part: Any) -> Any:
        if not isinstance(part, Algorithm):
            return part
        parts = {field.name: getattr(part, field.name) for field in fields(part)}  # type: ignore[arg-type]
        inner = {name: replaced(value) for name, value in parts.items()}  # noqa: F821 (deleted below)
        if any(inner[name] is not parts[name] for name in inner):
            part = replace(part, **inner)  # type: ignore[type-var]
        keys = [(type(part), type(objective), model) for model in models]
        subclass = next((_SUBCLASSES[key] for key in keys if key in _SUBCLASSES), None)
        if subclass is None or not getattr(subclass, "fits", lambda *_: True)(part, objective):
            return part
        return subclass(**inner)

    result: P = replaced(algorithm)
    del replaced  # it names itself: a cycle that would keep the objective until the garbage collector comes
    return result
