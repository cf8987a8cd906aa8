"""Classes and functions that replace the reference's take its docstrings; functions (``@mirrors``) must have its
signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["inherit_docstrings", "mirrors"]

F = TypeVar("F", bound=Callable[..., Any])


def mirrors(original: Callable[..., Any]) -> Callable[[F], F]:
    """Copy the docstring of ``original``; raise TypeError at import if the signatures differ."""

    def check(function: F) -> F:
        theirs, ours = inspect.signature(original), inspect.signature(function)
        if list(theirs.parameters.values()) != list(ours.parameters.values()):
            raise TypeError(f"{function.__module__}.{function.__qualname__}{ours} does not mirror {theirs}")
        function.__doc__ = original.__doc__
        return function

    return check


def inherit_docstrings(module: dict[str, Any]) -> None:
    """Give each class of a module without a docstring the docstring of its base: ``help`` inherits only those of
    methods.
    """
    for kind in module.values():
        if inspect.isclass(kind) and kind.__doc__ is None:
            kind.__doc__ = kind.__bases__[0].__doc__
