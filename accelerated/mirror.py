"""What takes the place of the reference's has its docstrings, and functions (``@mirrors``) its signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["inherit_docstrings", "mirrors"]

F = TypeVar("F", bound=Callable[..., Any])


def mirrors(original: Callable[..., Any]) -> Callable[[F], F]:
    """Copy the docstring of ``original`` and refuse, at import, a signature that differs from it."""

    def check(function: F) -> F:
        theirs, ours = inspect.signature(original), inspect.signature(function)
        if list(theirs.parameters.values()) != list(ours.parameters.values()):
            raise TypeError(f"{function.__module__}.{function.__qualname__}{ours} does not mirror {theirs}")
        function.__doc__ = original.__doc__
        return function

    return check


def inherit_docstrings(module: dict[str, Any]) -> None:
    """Give each class of a module that has no docstring its base's: ``help`` inherits those of methods alone."""
    for kind in module.values():
        if inspect.isclass(kind) and kind.__doc__ is None:
            kind.__doc__ = kind.__bases__[0].__doc__
