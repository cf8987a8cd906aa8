"""Dependency trees against Cayley's formula and determinants (Martins et al., section 4; the matrix-tree theorem)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from conformance.specimens.outputs import listing
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


# sums over trees -----------------------------------------------------------------------------------------------------


def laplacian(values, single_root):
    """The matrix whose determinant is the sum over trees: root arcs on the diagonal, or in the place of column 0
    (Koo et al. 2007).
    """
    n = len(values)
    w = np.exp(values)
    w[np.arange(n), np.arange(1, n + 1)] = 0.0
    a = np.diag(w[:, 1:].sum(axis=1)) - w[:, 1:]
    if single_root:
        a[:, 0] = w[:, 0]
        return w, a
    return w, a + np.diag(w[:, 0])


@roots
@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_the_partition_is_a_determinant(backend, rng, n, scale, single_root):
    """Kirchhoff's and Tutte's theorem: log Z is a log-determinant, and the marginals come from the inverse."""
    values = scale * rng.normal(size=(n, n + 1))
    values[rng.random(values.shape) < 0.1] = -np.inf
    values[:, 0] = rng.normal(size=n)
    values[1:, 1] = rng.normal(size=n - 1)
    w, a = laplacian(values, single_root)
    sign, expected = np.linalg.slogdet(a)
    value, marginals = backend.Arborescence(values, single_root).expectation()
    assert sign == 1
    close(value, expected)
    inverse = np.linalg.inv(a)  # d log det / d a, transposed
    arcs = np.zeros_like(w)
    for i, j in itertools.product(range(n), range(n)):
        diagonal = 0.0 if single_root and i == 0 else inverse[i, i]
        aside = 0.0 if single_root and j == 0 else inverse[j, i]
        arcs[i, j + 1] = w[i, j + 1] * (diagonal - aside)
    arcs[:, 0] = w[:, 0] * (inverse[0] if single_root else np.diag(inverse))
    np.testing.assert_allclose(marginals.values, arcs, atol=1e-8)
    close(np.asarray(marginals.values).sum(axis=1), np.ones(n))


@roots
@pytest.mark.parametrize("n", [3, 12, 30])
@pytest.mark.parametrize("mu", [0.5, 1.0])
def test_marginals_of_arcs_are_finite_differences(backend, rng, n, mu, single_root):
    values, d, step = rng.normal(size=(n, n + 1)), rng.normal(size=(n, n + 1)), 1e-5
    ahead, behind = (backend.Arborescence(values + s * d, single_root).log_partition(mu) for s in (step, -step))
    marginals = np.asarray(backend.Arborescence(values, single_root).marginals(mu).values)
    close((float(ahead) - float(behind)) / (2 * step), np.sum(marginals * d), scale=1e3)


@pytest.mark.parametrize("c", [1.0, 30.0, 600.0, 1e4])
@pytest.mark.parametrize("n", [2, 3, 20, 50])
def test_a_ring_that_hardly_anyone_leaves(backend, c, n):
    """Each token's head is the next one, or the root at e^-c: Z = (1 + e^-c)^n - 1, n e^-c with a single root.
    Products underflow.
    """
    values = np.full((n, n + 1), -np.inf)
    values[:, 0] = -c
    values[np.arange(n), np.roll(np.arange(1, n + 1), -1)] = 0.0
    value, marginals = backend.Arborescence(values, single_root=True).expectation()
    close(value, math.log(n) - c)
    close(np.asarray(marginals.values)[:, 0], np.full(n, 1 / n))
    value, marginals = backend.Arborescence(values).expectation()
    total = n * math.log1p(math.exp(-c))
    close(value, math.log(math.expm1(total)) if c < 100 else math.log(n) - c)
    leaving = math.exp(-c) * math.exp((n - 1) * math.log1p(math.exp(-c))) / math.expm1(total) if c < 100 else 1 / n
    close(np.asarray(marginals.values)[:, 0], np.full(n, leaving))
    assert backend.Arborescence(values).best()[0] == -c


@roots
def test_arcs_of_very_different_scores(backend, single_root):
    values = np.array([[1e300, 0.0, 1e-300, -1e300], [-1e300, 1e300, 0.0, -0.0], [1.0, -1e300, 1e300, 0.0]])
    structure = backend.Arborescence(values, single_root)
    value, heads = structure.best()
    assert value == 3e300 and np.asarray(heads).tolist() == [0, 1, 2]
    close(structure.log_partition(), 3e300)
    close(structure.marginals().values, structure.parts([0, 1, 2]).values)


@roots
@pytest.mark.parametrize("kind", KINDS)
def test_a_greedy_tree_is_not_beaten(backend, rng, kind, single_root):
    """Exchanges: no arc of a best tree of 70 tokens can be replaced with a gain."""
    n = 70
    values = KINDS[kind](rng, n)
    structure = backend.Arborescence(values, single_root)
    value, heads = (np.asarray(x) for x in structure.ops.maximum_arborescence(structure.scores, single_root))
    if value == -np.inf:
        assert structure.count() == 0
        return
    assert is_tree(heads, single_root)
    for m, h in itertools.product(range(n), range(n + 1)):
        other = heads.copy()
        other[m] = h
        if h != m + 1 and values[m, h] > values[m, heads[m]] and is_tree(other, single_root):
            raise AssertionError(f"token {m + 1} gains by head {h}")


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
