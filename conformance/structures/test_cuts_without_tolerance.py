"""Cuts whose best and second best hardly differ beside their capacities: integers, which add up exactly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from accelerated.structures.cut import by_networkx
from conformance.structures.test_cut import brute


def solved(backend, instance):
    """Value and labels by the panel and by networkx."""
    cut = backend.Cut(*instance)
    for value, labels in (cut.best(), by_networkx(cut.scores)):
        yield float(value), tuple(np.asarray(labels).tolist())


@pytest.mark.parametrize("power", [10, 20, 30, 40, 50])
@pytest.mark.parametrize("least", [0, 1, 2, 3])
def test_the_least_of_great_capacities_is_cut(backend, power, least):
    """A path of three variables, four arcs of capacity 2^power and one of them 1 or 2 less: cut there, at no other."""
    for less in (1.0, 2.0):
        capacity = np.full(4, 2.0**power)
        capacity[least] -= less
        unary, pairwise = np.zeros((3, 2)), np.zeros((2, 2, 2))
        unary[0, 1], unary[2, 0] = capacity[0], capacity[3]  # what labels 0 and 1 forgo at the two ends
        pairwise[:, 0, 0] = pairwise[:, 1, 1] = capacity[1:3]
        instance = (unary, pairwise, np.array([[0, 1], [1, 2]]))
        for value, labels in solved(backend, instance):
            assert value == capacity.sum() - capacity[least]
            assert labels == (1,) * least + (0,) * (3 - least)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("tenths", [False, True])
def test_the_best_energy_is_found(backend, seed, tenths):
    """Of integers from 1 to 2^40 bit for bit; of tenths, which floats do not hold, to a few units of rounding."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(3, 9))
    edges = np.array([e for e in itertools.combinations(range(p), 2) if rng.random() < 0.6], np.int64).reshape(-1, 2)
    unary = rng.integers(-20, 20, (p, 2)) * 0.1 if tenths else np.floor(2.0 ** rng.uniform(0, 40, (p, 2)))
    equal = rng.integers(1, 10, len(edges)) * 0.1 if tenths else np.floor(2.0 ** rng.uniform(0, 40, len(edges)))
    instance = (unary, equal[:, None, None] * np.eye(2), edges)
    outputs, scores = brute(instance)
    slack = 1e-13 * tenths
    for value, labels in solved(backend, instance):
        assert abs(value - scores.max()) <= slack and scores[outputs.index(labels)] >= scores.max() - slack
