"""Checks of the arguments of bounds: numbers within the range of floats."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from reference.arrays import real

__all__ = ["of_floats", "refuse_beyond_floats"]

F = TypeVar("F", bound=Callable[..., Any])


def of_floats(bound: F) -> F:
    """Decorates a bound: for its parameters that are floats, an integer beyond the range of floats raises ValueError
    with its name.
    """
    parameters = inspect.signature(bound).parameters
    floats = [name for name, parameter in parameters.items() if str(parameter.annotation).startswith("float")]

    @functools.wraps(bound)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        refuse_beyond_floats(**{name: given[name] for name in floats if name in given})
        return bound(*args, **kwargs)

    return checked  # type: ignore[return-value]


def refuse_beyond_floats(**arguments: Any) -> None:
    """Raise ValueError with the name of the first integer beyond the range of floats."""
    for name, value in arguments.items():
        if isinstance(value, int) and value.bit_length() > 1023:
            real(name, value)
