"""What every bound asks of its arguments: numbers that a float holds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from reference.arrays import real

__all__ = ["of_floats", "refuse_beyond_floats"]

F = TypeVar("F", bound=Callable[..., Any])


def of_floats(bound: F) -> F:
    """The bound, with integers that no float holds refused by name where it takes floats. Raises ValueError."""
    parameters = inspect.signature(bound).parameters
    floats = [name for name, parameter in parameters.items() if str(parameter.annotation).startswith("float")]

    @functools.wraps(bound)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        refuse_beyond_floats(**{name: given[name] for name in floats if name in given})
        return bound(*args, **kwargs)

    return checked  # type: ignore[return-value]


def refuse_beyond_floats(**arguments: Any) -> None:
    """Raise ValueError that names the first integer which no float holds."""
    for name, value in arguments.items():
        if isinstance(value, int) and value.bit_length() > 1023:
            real(name, value)
