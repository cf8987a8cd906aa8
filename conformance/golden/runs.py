"""The table of golden runs: a name ``family/problem/options`` for each, and a function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from conformance.golden import beyond, broken, descent, duals, resumed, variance_reduced
from conformance.golden.problems import Problems
from conformance.golden.records import record

__all__ = ["FAMILIES", "recorded_runs", "runs"]

FAMILIES: dict[str, Callable[[Problems], Iterator[tuple[str, Callable[[], Any]]]]] = {
    "sgd": descent.sgd,
    "lbfgs": descent.lbfgs,
    "online_proximal": descent.online_proximal,
    "svrg": variance_reduced.svrg,
    "casimir": variance_reduced.casimir,
    "presets": variance_reduced.presets,
    "bcfw": duals.bcfw,
    "exponentiated_gradient": duals.exponentiated_gradient,
    "multisample": duals.multisample,
    "cutting_planes": duals.cutting_planes,
    "prox_linear": beyond.prox_linear,
    "mkl": beyond.mkl,
    "solve_sparse": beyond.solve_sparse,
    "sparse_path": beyond.sparse_path,
    "resumed": resumed.resumed,
    "broken": broken.broken,
}


def recorded_runs(backend: Any, families: Iterable[str] = tuple(FAMILIES), sway: float = 0.0) -> dict[str, Any]:
    """The record of each run of these families, by name."""
    return {name: record(run) for name, run in runs(backend, families, sway).items()}


def runs(backend: Any, families: Iterable[str] = tuple(FAMILIES), sway: float = 0.0) -> dict[str, Callable[[], Any]]:
    """The runs of these families, by name; each may be called once."""
    problems, found = Problems(backend, sway), {}
    for family in families:
        for name, run in FAMILIES[family](problems):
            if f"{family}/{name}" in found:
                raise ValueError(f"two golden runs are called {family}/{name}")
            found[f"{family}/{name}"] = run
    return found
