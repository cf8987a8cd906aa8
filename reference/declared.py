"""Options that are declared once, in the signature: ``Annotated[float, Ge(0)]`` is a range, ``Literal[...]`` a choice.

The checks of arguments follow from the annotations. Members of a union other than numbers, choices and callables are
checked where they are used.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

import numpy as np

from reference.arrays import integer, number, real

__all__ = [
    "DualLam",
    "Ge",
    "Gt",
    "Lam",
    "OpenUnit",
    "Range",
    "Said",
    "Temperature",
    "Unrecorded",
    "check_of",
    "checked",
    "checks_of",
    "choices_of",
    "members",
    "options_of",
    "recorded",
]

LEAST_LAM = float(np.nextafter(1 / np.finfo(np.float64).max, 1))  # 1/max is rounded down: its inverse is inf
Check = Callable[[Any], Any]
F = TypeVar("F", bound=Callable[..., Any])


class Range:
    """The range of a number."""

    outside: ClassVar[tuple[float, ...]] = (-1.0,)  # finite numbers that are out of range
    least: int  # of integers

    def check(self, name: str, value: Any) -> None:
        """Raise TypeError or ValueError, which name the argument and the value, unless it is a number in the range."""
        raise NotImplementedError


@dataclass(frozen=True)
class Ge(Range):
    """Numbers >= ``least``: floats if it is 0, or integers."""

    least: int

    def check(self, name: str, value: Any) -> None:
        number(name, value)


@dataclass(frozen=True)
class Gt(Range):
    """Numbers > 0."""

    bound: int
    outside = (-1.0, 0.0)

    def check(self, name: str, value: Any) -> None:
        number(name, value, positive=True)


@dataclass(frozen=True)
class OpenUnit(Range):
    """Numbers in (0, 1)."""

    outside = (-1.0, 0.0, 1.0)

    def check(self, name: str, value: Any) -> None:
        if not 0 < number(name, value) < 1:
            raise ValueError(f"{name}: expected a number in (0, 1), got {value}")


@dataclass(frozen=True)
class Normal(Range):
    """Numbers > 0 that are not subnormal."""

    outside = (-1.0, 0.0, 1e-310)

    def check(self, name: str, value: Any) -> None:
        if not float(np.finfo(np.float64).tiny) <= real(name, value) < np.inf:
            raise ValueError(f"{name}: expected a finite number > 0 (not subnormal), got {float(value)}")


@dataclass(frozen=True)
class Strength(Range):
    """0, or numbers whose inverse is finite; only these if ``dual``."""

    dual: bool = False

    @property
    def outside(self) -> tuple[float, ...]:  # type: ignore[override]
        """Negative numbers, numbers whose inverse overflows, and 0 if ``dual``."""
        return (-1.0, 1e-310, 0.0) if self.dual else (-1.0, 1e-310)

    def check(self, name: str, value: Any) -> None:
        if self.dual and not 0 < real(name, value) < np.inf:
            raise ValueError(f"{name}: the dual needs a finite number > 0, got {value}")
        strength = number(name, value)
        if 0 < strength < LEAST_LAM:
            raise ValueError(
                f"{name}: expected 0, or a number >= {LEAST_LAM:.3g} whose inverse is finite, got {strength}"
            )


@dataclass(frozen=True)
class Said:
    """What a message says was expected, if not the list of the choices."""

    expected: str


class Unrecorded:
    """An option that a resumed run need not have in common with the run of its checkpoint."""


Lam = Annotated[float, Strength()]
DualLam = Annotated[float, Strength(dual=True)]
Temperature = Annotated[float, Normal()]


def members(hint: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The members of a union, each with its marks."""
    if get_origin(hint) in (Union, UnionType):
        for each in get_args(hint):
            yield from members(each)
    elif get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        yield from ((each, (*more, *marks)) for each, more in members(kind))
    else:
        yield hint, ()


def check_of(name: str, hint: Any) -> Check | None:
    """The check that follows from an annotation; None if there is nothing to check."""
    kinds = dict(members(hint))
    optional, callables = NoneType in kinds, [kind for kind in kinds if _origin(kind) is Callable]
    rest = [kind for kind in kinds if kind is not NoneType and kind not in callables]
    if len(rest) != 1:
        return None
    check = _check(name, rest[0], kinds[rest[0]], bool(callables))
    if check is None or not (optional or callables):
        return check
    return lambda value: (value is None and optional) or (callables and callable(value)) or check(value)


def _check(name: str, kind: Any, marks: tuple[Any, ...], or_callable: bool) -> Check | None:
    ranges = [mark for mark in marks if isinstance(mark, Range)]
    if kind is int and ranges:
        return lambda value: integer(name, value, ranges[0].least)
    if kind is float:
        return (lambda value: ranges[0].check(name, value)) if ranges else lambda value: real(name, value)
    if _origin(kind) is Literal:
        choices = get_args(kind)
        said = [mark.expected for mark in marks if isinstance(mark, Said)]
        expected = said[0] if said else f"one of {', '.join(choices)}{' or a callable' * or_callable}"
        return lambda value: one_of(name, value, choices, expected)
    return None


def _origin(hint: Any) -> Any:
    return get_origin(hint)


def one_of(name: str, value: Any, choices: tuple[str, ...], expected: str) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}: expected {expected}, got {value!r}")


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function's parameters, evaluated; those of a ``TypedDict`` in the place of ``**options``."""
    hints = get_type_hints(function, include_extras=True)
    unpacked = [name for name, hint in hints.items() if _origin(hint) is Unpack]
    for name in unpacked:
        hints |= get_type_hints(get_args(hints.pop(name))[0], include_extras=True)
    shown = inspect.signature(function).parameters
    return {name: hints[name] for name in hints if name in shown or not shown.keys().isdisjoint(unpacked)}


def choices_of(function: Callable[..., Any], name: str) -> tuple[str, ...]:
    """The choices of a parameter; () if its annotation has none."""
    kinds = dict(members(options_of(function)[name]))
    return tuple(choice for kind in kinds if _origin(kind) is Literal for choice in get_args(kind))


def checks_of(function: Callable[..., Any]) -> dict[str, Check]:
    """The checks that follow from a function's annotations, by parameter."""
    checks = {name: check_of(name, hint) for name, hint in options_of(function).items()}
    return {name: check for name, check in checks.items() if check is not None}


def checked(function: F) -> F:
    """Decorate a function: its keyword arguments are checked as their annotations say, in that order."""
    checks = functools.cache(lambda: checks_of(function))  # annotations may name what is defined later

    @functools.wraps(function)
    def public(*arguments: Any, **named: Any) -> Any:
        for name, check in checks().items():
            if name in named:
                check(named[name])
        return function(*arguments, **named)

    return public  # type: ignore[return-value]


def recorded(hint: Any) -> bool:
    """Whether a resumed run must have the same value of an option."""
    return not any(isinstance(mark, Unrecorded) for _, marks in members(hint) for mark in marks)
