"""Counterparts of boxes and of their parts: the only place where this panel looks for faster code.

A counterpart is a subclass that computes the same results in another way. It is registered for a type of algorithm, a
type of objective and a type of model (or any model), and used only for exactly these types: subclasses of them get the
box itself.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from reference.optimizers.base import Algorithm, Examples, traits
from reference.training.result import Report

__all__ = ["Domain", "counterpart", "domain_of", "register", "register_domain"]

P = TypeVar("P", bound=Algorithm)

_SUBCLASSES: dict[tuple[type, type, type | None], type] = {}


def register(algorithm: type, objective: type, model: type | None, subclass: type) -> None:
    """Use ``subclass``, a subclass of ``algorithm`` with the same fields, for this type of objective and of model.

    model: None for any model.

    If it does not support every algorithm or objective of these types, it has a class method ``fits(algorithm,
    objective)``.
    """
    _SUBCLASSES[algorithm, objective, model] = subclass


def counterpart(algorithm: P, objective: Examples) -> P:
    """The counterpart of an algorithm, and of each one among its fields; the algorithm itself if none is registered."""
    parts = {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}  # type: ignore[arg-type]
    inner = {name: counterpart(part, objective) for name, part in parts.items() if isinstance(part, Algorithm)}
    if any(inner[name] is not parts[name] for name in inner):
        algorithm = replace(algorithm, **inner)  # type: ignore[type-var]
    models = type(traits(objective).model), None
    keys = [(type(algorithm), type(objective), model) for model in models]
    subclass = next((_SUBCLASSES[key] for key in keys if key in _SUBCLASSES), None)
    if subclass is None or not getattr(subclass, "fits", lambda *_: True)(algorithm, objective):
        return algorithm
    result: P = subclass(**(parts | inner))
    return result


class Domain:
    """The weights that a run is over: all weights. A panel may register a subclass with fewer of them, whose run has
    the same results.
    """

    def __init__(self, objective: Any) -> None:
        self.objective = objective

    @classmethod
    def fits(cls, solver: Any, objective: Any) -> bool:
        """Whether a run of this solver may be over this domain."""
        return True

    @classmethod
    def form_of(cls, solver: Any) -> str | None:
        """The type of the states, if only one panel can read them."""
        box = type(solver.box)
        return f"{box.__module__}.{box.__qualname__}" if solver.loop.panel_state else None

    @classmethod
    def of(cls, objective: Any, start: Any) -> Domain:
        """The domain of a run that starts at these weights (d,)."""
        return cls(objective)

    @classmethod
    def resumed(cls, objective: Any, saved: Any) -> tuple[Domain, Any]:
        """The domain and the solver's state, from the form of a state in a checkpoint."""
        return cls(objective), saved

    def taken(self, w: Any) -> Any:
        """The weights of the domain, from all weights (d,)."""
        return w

    def reported(self, report: Report) -> Report:
        """The report with all weights (d,)."""
        return report

    def saved(self, state: Any) -> Any:
        """The form of a state in a checkpoint."""
        return state


_DOMAINS: dict[tuple[type, type, type], type[Domain]] = {}


def register_domain(solver: type, objective: type, model: type, domain: type[Domain]) -> None:
    """Run this type of solver over ``domain`` where that fits, for this type of objective and of model."""
    _DOMAINS[solver, objective, model] = domain


def domain_of(solver: Any, objective: Any) -> type[Domain]:
    """The type of domain that a run of this solver is over."""
    domain = _DOMAINS.get((type(solver), type(objective), type(traits(objective).model)))
    return Domain if domain is None or not domain.fits(solver, objective) else domain
