"""The table of golden runs: a name ``family/problem/options`` for each, and a function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from conformance.golden import dual, primal
from conformance.golden.problems import Problems, Runs
from conformance.golden.records import record

__all__ = ["FAMILIES", "recorded_runs", "runs"]

FAMILIES: dict[str, Callable[[Problems], Runs]] = {
    name: getattr(module, name) for module in (primal, dual) for name in module.__all__
}


def recorded_runs(backend: Any, families: Iterable[str] = tuple(FAMILIES)) -> dict[str, Any]:
    """The record of each run of these families, by name."""
    return {name: record(run) for name, run in runs(backend, families).items()}


def runs(backend: Any, families: Iterable[str] = tuple(FAMILIES)) -> dict[str, Callable[[], Any]]:
    """The runs of these families, by name; each may be called once."""
    problems, found = Problems(backend), {}
    for family in families:
        for name, run in FAMILIES[family](problems):
            if f"{family}/{name}" in found:
                raise ValueError(f"two golden runs are called {family}/{name}")
            found[f"{family}/{name}"] = run
    return found
