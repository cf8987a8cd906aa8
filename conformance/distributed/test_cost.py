"""The model of a pass's cost: its limits, its fit, and the mean of the largest of many times."""

from __future__ import annotations

import math

import numpy as np
import pytest

from diptych.distributed.cost import Cost, Pass, fitted, largest

COST = Cost(2e-6, 3e-9, 2e-9, 1e-9, 2e-4, 0.01)
PASSES = [
    Pass(n, d, w, p, machines=m)
    for n in (1e5, 1e6)
    for d in (1e5, 1e7)
    for w, m in ((1, 1), (2, 1), (2, 2), (40, 10))
    for p in (8, 100)
]


def test_the_fit_recovers_planted_constants():
    measured = [one._replace(seconds=COST.seconds(one)) for one in PASSES]
    found = fitted(measured)
    for name in ("token", "weight", "memory", "byte", "task", "start"):
        assert math.isclose(getattr(found, name), getattr(COST, name), rel_tol=1e-6)


def test_constants_are_never_negative():
    rng = np.random.default_rng(0)
    measured = [one._replace(seconds=float(rng.uniform(0.1, 10))) for one in PASSES]
    found = fitted(measured)
    assert min(found.token, found.weight, found.memory, found.byte, found.task, found.start) >= 0


def test_limits():
    """One worker and one partition send w once and add nothing; twice the workers halve the computing alone."""
    alone = COST.terms(Pass(1e6, 1e6, 1, 1))
    assert math.isclose(alone["computing"], 2.0) and math.isclose(alone["travelling"], 8e6 * 1e-9)
    assert alone["stragglers"] == 0.0
    two, four = (COST.terms(Pass(1e6, 1e6, w, 64)) for w in (2, 4))
    assert math.isclose(two["computing"], 2 * four["computing"]) and two["travelling"] < four["travelling"]
    assert math.isclose(sum(two.values()), COST.seconds(Pass(1e6, 1e6, 2, 64)))
    assert two["memory"] == four["memory"] == 2 * COST.terms(Pass(1e6, 1e6, 4, 64, machines=2))["memory"]


@pytest.mark.parametrize("spread", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("workers", [1, 2, 10, 1000])
def test_the_largest_of_many_times(workers, spread):
    """Against draws; for two workers E max = 2 Phi(spread / sqrt 2) in closed form."""
    rng = np.random.default_rng(workers)
    draws = np.exp(spread * rng.normal(size=(4000, workers)) - 0.5 * spread**2).max(axis=1)
    assert abs(largest(workers, spread) - draws.mean()) <= 5 * draws.std() / np.sqrt(len(draws)) + 1e-12
    if workers == 2:
        assert math.isclose(largest(2, spread), 1 + math.erf(spread / 2), rel_tol=1e-9)


def test_wrong_measurements_are_named():
    with pytest.raises(ValueError, match="^measured: expected at least 6 passes, got 2"):
        fitted(PASSES[:2])
    with pytest.raises(ValueError, match="^measured: expected seconds > 0, got nan"):
        fitted(PASSES)
