"""The one catalogue of what the laws run on: structures, models, learners, regularizers and rules.

Each kind has a module of its own beside this one. A law is written once and runs over the specimens of a module, the
backends and the namespaces: ``@pytest.mark.parametrize("specimen", STRUCTURES)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Specimen", "Wrong"]


class Wrong(NamedTuple):
    """What is refused: ``ask(backend)`` raises the error, with a message that matches."""

    ask: Callable[[Any], Any]
    message: str
    error: type[Exception] = ValueError


@dataclass(frozen=True)
class Specimen:
    """A thing under test.

    ``draw(**options)`` is a hypothesis strategy of instances, nasty ones included: ties, zeros, -inf, one element,
    none, huge and tiny scales. An instance is plain data on the host. ``make(backend, instance, space)`` makes the
    thing of it; without a space, of NumPy arrays as they are. ``enumerate(instance)`` is the truth by enumeration.
    ``wrong``: arguments that are refused. ``promises``: what holds of this one and not of all.
    """

    name: str
    draw: Callable[..., Any]
    make: Callable[..., Any]
    enumerate: Callable[..., Any] | None = None
    wrong: tuple[Wrong, ...] = ()
    promises: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """As the id of a test."""
        return self.name

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As hypothesis shows it beside a failing instance."""
        printer.text(repr(self))
