"""``@mirrors``: an accelerated function takes the place of a reference function, docstring and signature included."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["mirrors"]

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
