"""Projective dependency trees beside arborescences, and beside the numbers of trees (Eisner 1996)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.specimens.outputs import listing
from conformance.tolerances import close

NONE = -np.inf
roots = pytest.mark.parametrize("single_root", [False, True], ids=["roots", "one root"])


def are_stretches(heads):
    """Whether the tokens under each token are neighbours."""
    for top in range(1, len(heads) + 1):
        under = {top}
        for _ in heads:
            under |= {m for m, h in enumerate(heads, 1) if h in under}
        if max(under) - min(under) >= len(under):
            return False
    return True


@roots
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_tokens_under_each_token_are_a_stretch(backend, n, single_root):
    """An arc that crosses one of the root leaves a gap, too."""
    trees = backend.Arborescence(np.zeros((n, n + 1)), single_root).enumerate()
    assert list(backend.Projective(np.zeros((n, n + 1)), single_root).enumerate()) == list(filter(are_stretches, trees))


@roots
@pytest.mark.parametrize("c", [0.0, -1e16, 1e300])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 45])
def test_the_number_of_projective_trees(backend, n, c, single_root):
    """binom(3 n, n) / (2 n + 1), binom(3 n - 2, n - 1) / n of a single root; equally likely at every height."""
    structure = backend.Projective(np.full((n, n + 1), c), single_root)
    count = math.comb(3 * n - 2, n - 1) // n if single_root else math.comb(3 * n, n) // (2 * n + 1)
    assert structure.count() == count
    value, marginals = structure.expectation()
    close(value, n * c + math.log(count))
    close(np.asarray(marginals.values).sum(axis=1), np.ones(n))


@roots
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3, 1e16])
def test_fewer_trees_than_arborescences(backend, rng, scale, single_root):
    """Best scores and sums are at most those of all trees, and equal where a projective tree is far ahead."""
    values = scale * rng.normal(size=(12, 13))
    ours, all_of_them = backend.Projective(values, single_root), backend.Arborescence(values, single_root)
    assert ours.best()[0] <= all_of_them.best()[0] + 1e-14 * scale
    assert ours.log_partition() <= all_of_them.log_partition() + 1e-14 * scale
    y = np.asarray(backend.Projective(np.zeros((12, 13)), single_root).sample(1, rng=rng))[0]
    planted = values + 100 * scale * np.asarray(ours.parts(y).values)
    for kind in (backend.Projective, backend.Arborescence):
        assert np.array_equal(kind(planted, single_root).best()[1], y)


@roots
@pytest.mark.parametrize("scale", [1.0, 1e300])
def test_trees_are_drawn_as_often_as_they_are_likely(backend, rng, scale, single_root):
    values = scale * rng.integers(-1, 2, (4, 5))
    outputs = listing("Projective", {"values": values, "single_root": single_root})
    drawn, size = np.asarray(backend.Projective(values, single_root).sample(4000, 2.0, rng=0)).tolist(), 4000
    weights = np.exp((outputs.scores - outputs.scores.max()) / 2.0)
    for y, p in zip(outputs.outputs, weights / weights.sum(), strict=True):
        assert abs(drawn.count(list(y)) - size * p) <= 5 * math.sqrt(size * p)
