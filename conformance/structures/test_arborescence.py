"""Dependency trees against enumeration and Cayley's formula (Martins et al., section 4; the matrix-tree theorem)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.outputs import listing
from conformance.specimens.structures import dependencies
from conformance.tolerances import close

roots = pytest.mark.parametrize("single_root", [False, True], ids=["roots", "one root"])
KINDS = {
    "random": lambda rng, n: rng.normal(size=(n, n + 1)),
    "planted": lambda rng, n: rng.normal(size=(n, n + 1)) + 5.0 * np.eye(n, n + 1),
    "integers": lambda rng, n: rng.integers(0, 4, (n, n + 1)).astype(np.float64),
    "equal": lambda rng, n: np.zeros((n, n + 1)),
    "pairs": lambda rng, n: (
        rng.normal(size=(n, n + 1)) + 9.0 * (np.arange(n)[:, None] // 2 == (np.arange(n + 1) - 1) // 2)
    ),
    "nested": lambda rng, n: -np.abs(np.arange(n)[:, None] - np.arange(-1.0, n)) + 1e-3 * rng.random((n, n + 1)),
    "far apart": lambda rng, n: rng.uniform(-1e3, 1e3, (n, n + 1)),
    "mostly forbidden": lambda rng, n: np.where(rng.random((n, n + 1)) < 0.8, -np.inf, rng.normal(size=(n, n + 1))),
}


def trees(values, single_root):
    """Every tree as heads (n,), and its score."""
    return listing("Arborescence", {"values": values, "single_root": single_root})[:2]


def is_tree(heads, single_root):
    m, steps = np.arange(1, len(heads) + 1), 0
    while np.any(m > 0) and steps <= len(heads):
        m, steps = np.where(m > 0, heads[m - 1], 0), steps + 1
    return bool(np.all(m == 0)) and (not single_root or np.sum(heads == 0) == 1)


@given(scores=dependencies(), k=st.integers(1, 12))
def test_best_max_marginal_first_finds_the_same_trees(backend, scores, k):
    structure = backend.Arborescence(scores.values, single_root=True)
    close(backend.bmmf(structure, k).scores, structure.topk(k).scores)


# numbers of trees ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 45])
def test_cayleys_formula(backend, n):
    """(n + 1)^(n - 1) trees, n^(n - 1) of a single root, exactly; and the sum of as many ones."""
    plain, single = (backend.Arborescence(np.zeros((n, n + 1)), s) for s in (False, True))
    many, one = (n + 1) ** (n - 1) if n else 1, n ** (n - 1) if n else 1
    assert (plain.count(), single.count()) == (many, one)
    close(plain.log_partition(), math.log(many))
    close(single.log_partition(), math.log(one))
    if n:
        close(np.asarray(single.marginals().values)[:, 0], np.full(n, 1 / n))
        close(np.asarray(plain.marginals().values)[:, 0], np.full(n, 2 / (n + 1)))


@given(scores=dependencies(largest=5), single_root=st.booleans())
def test_the_number_of_trees(backend, scores, single_root):
    allowed = np.where(scores.values > -np.inf, 0.0, -np.inf)
    assert backend.Arborescence(scores.values, single_root).count() == np.sum(trees(allowed, single_root)[1] == 0)


# what is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n", [2, 3, 40])
def test_what_is_no_score_of_an_arc_is_no_number(backend, rng, bad, n):
    """Scores of weights that left the finite numbers, which no constructor has seen: nan, no loop without end."""
    values = rng.normal(size=(n, n + 1))
    values[-1, 0] = bad
    structure = backend.Arborescence.unchecked(backend.ArborescenceScores(values))
    value, heads = structure.best()
    assert np.isnan(value) and np.all(np.asarray(heads) == -1)
    assert np.isnan(structure.expectation()[0]) and np.all(np.isnan(structure.expectation()[1].values))
    assert np.all(np.isnan(structure.max_marginals().values)) and structure.topk(2).count == 0
    assert np.all(np.asarray(structure.parts(heads).values) == 0)


def test_single_roots_stay(backend):
    """Whatever is derived from a structure keeps to what its trees are."""
    structure = backend.Arborescence(np.zeros((3, 4)), single_root=True)
    ones = backend.ArborescenceScores(np.ones((3, 4)))
    for derived in (structure.augment(ones), structure.constrained(np.ones((3, 4), bool))):
        assert derived.single_root and derived.count() == 9


# misprints and mistakes --------------------------------------------------------------------------------------------


def test_the_root_at_a_discount_is_no_single_root():
    """Root arcs made cheap by a finite constant: where scores are larger than it, two of them are still best."""
    values = np.array([[1e3, 0.0, -1e3], [1e3, -1e3, 0.0]])
    outputs, scores = trees(np.where(np.arange(3) == 0, values - 100.0, values), single_root=False)
    assert outputs[int(np.argmax(scores))] == (0, 0)
