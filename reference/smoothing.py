"""The max over outputs and its smoothings: small objects that ask a structure the right question.

A smoothing is called with a structure and mu and returns value and gradient (shaped like the structure's scores); mu = 0
is always the max itself. ``needs`` names the method of the structure that it calls when mu > 0. Source: Pillutla et al.,
Definition 6 and Lemma 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Entropy", "Max"]


@dataclass(frozen=True)
class Max:
    """max_y psi(y); the gradient is the indicator of a best output's parts (a subgradient where outputs tie)."""

    needs = "best"

    def __call__(self, structure: Any, mu: float = 0.0) -> tuple[Any, Any]:
        if mu != 0:
            raise ValueError(f"mu: the max itself has no smoothing, expected 0, got {mu}")
        value, y = structure.best()
        return value, structure.parts(y)


@dataclass(frozen=True)
class Entropy:
    """mu log sum_y exp(psi(y) / mu), between the max and the max + mu log m; the gradient is the marginals."""

    needs = "expectation"

    def __call__(self, structure: Any, mu: float = 1.0) -> tuple[Any, Any]:
        return Max()(structure) if mu == 0 else structure.expectation(mu)
