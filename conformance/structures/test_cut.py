"""Binary variables against enumeration and independent solvers (Pillutla et al., Algorithm 11), in every namespace."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reference
from conformance.specimens.outputs import listing
from conformance.specimens.structures import grid_edges
from conformance.tolerances import close


def brute(instance):
    """Every labelling of a small instance and its score."""
    return listing("Cut", dict(zip(("unary", "pairwise", "edges"), instance, strict=True)))[:2]


def grid(n, coupling, seed=0):
    """A 4-connected n x n grid with random submodular energies."""
    rng = np.random.default_rng(seed)
    edges = grid_edges(n)
    pairwise = rng.normal(size=(len(edges), 2, 2))
    pairwise[:, 0, 0] += pairwise[:, 0, 1] + pairwise[:, 1, 0] - pairwise[:, 0, 0] - pairwise[:, 1, 1]
    pairwise[:, 0, 0] += coupling * rng.random(len(edges))
    return rng.normal(size=(n * n, 2)), pairwise, edges


def integer_program(unary, pairwise, edges):
    """The highest score by SciPy's milp: a variable for each label of a node and each pair of labels of an edge."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_array

    p, e = len(unary), len(edges)
    A = lil_array((p + 4 * e, 2 * p + 4 * e))
    right = np.zeros(p + 4 * e)
    for v in range(p):
        A[v, [2 * v, 2 * v + 1]] = 1.0
        right[v] = 1.0
    for k, (a, b) in enumerate(edges):
        for j in (0, 1):
            pairs = np.array([[2 * p + 4 * k + 2 * j + i for i in (0, 1)], [2 * p + 4 * k + 2 * i + j for i in (0, 1)]])
            for end, v in enumerate((a, b)):
                row = p + 4 * k + 2 * end + j
                A[row, pairs[end]] = 1.0
                A[row, 2 * v + j] = -1.0
    cost = -np.concatenate([unary.ravel(), pairwise.ravel()])
    cost[np.isposinf(cost)] = 1e4
    whole = np.concatenate([np.ones(2 * p), np.zeros(4 * e)])
    return -milp(
        cost, constraints=LinearConstraint(A.tocsr(), right, right), bounds=Bounds(0, 1), integrality=whole
    ).fun


@pytest.mark.parametrize("coupling", [0.5, 2.0, 8.0])
def test_a_grid_is_its_integer_program(backend, coupling):
    instance = grid(9, coupling)
    value, labels = backend.Cut(*instance).best()
    close(value, integer_program(*instance))
    close(backend.Cut(*instance).score(labels), value)


@pytest.mark.parametrize("coupling", [0.5, 2.0, 8.0])
def test_max_marginals_of_all_nodes_are_cuts(other, coupling):
    """One cut each, at nodes from everywhere in a grid; then the state must be the best one still."""
    unary, pairwise, edges = grid(24, coupling)
    cut = other.Cut(unary, pairwise, edges)
    found = np.asarray(cut.node_max_marginals())
    for v in range(0, len(unary), 29):
        for j in (0, 1):
            allowed = np.ones(unary.shape, bool)
            allowed[v, 1 - j] = False
            close(found[v, j], float(cut.constrained(allowed).best()[0]))
    close(found.max(axis=1), np.full(len(unary), float(cut.best()[0])))


def test_the_printed_capacity_is_negative(backend):
    """th_01 - th_00 - th_11 (Algorithm 11, line 7) of th = [[1, 0], [2, 1]] is -2; clipped at 0, the printed network
    errs.
    """
    theta = np.array([[1.0, 0.0], [2.0, 1.0]])
    assert np.all(theta >= 0) and theta[0, 0] + theta[1, 1] <= theta[0, 1] + theta[1, 0]  # as the paper assumes
    printed = theta[0, 1] - theta[0, 0] - theta[1, 1]
    assert printed == -2.0

    def printed_cut(y):  # arcs s -> v, v' -> t, v -> v' and v' -> v; a node is on the source's side where y = 1
        first, second = y
        forth, back = first * (1 - second) * theta[1, 0], second * (1 - first) * max(printed, 0.0)
        return (1 - first) * theta[0, 0] + second * theta[1, 1] + forth + back

    value, labels = backend.Cut(np.zeros((2, 2)), -theta[None], [[0, 1]]).best()
    assert (float(value), np.asarray(labels).tolist()) == (0.0, [0, 1])
    cheapest = min(itertools.product((0, 1), repeat=2), key=printed_cut)
    assert printed_cut(cheapest) != -float(value)


def test_count_is_exact_where_it_can_be(backend):
    pairwise = np.zeros((29, 2, 2))
    edges = np.stack([np.arange(29), np.arange(1, 30)], axis=1)
    unary = np.zeros((30, 2))
    assert backend.Cut(unary, pairwise, edges).count() == 2**30
    pairwise[:10, 1, 0] = -np.inf  # the first eleven rise from 0 to 1: 12 ways
    assert backend.Cut(unary, pairwise, edges).count() == 12 * 2**19
    pairwise[:, 1, 0] = -np.inf
    with pytest.raises(backend.IntractableError, match="30 variables"):
        backend.Cut(unary, pairwise, edges).count()


def test_an_edge_that_is_not_supermodular_is_named(backend):
    """Also where a loss makes it so: the constructor has not seen it."""
    unary, edges = np.zeros((3, 2)), [[0, 1], [1, 2]]
    pairwise = np.zeros((2, 2, 2))
    pairwise[1, 0, 1] = 2.0
    cut = backend.Cut(unary, np.zeros((2, 2, 2)), edges)
    loud = cut.augment(cut.scores._replace(pairwise=pairwise))
    for ask in (loud.best, loud.max_marginals, loud.node_max_marginals):
        with pytest.raises(ValueError, match=r"edge 1 \(1, 2\)"):
            ask()


def test_an_ulp_is_rounding(backend):
    """0.1 + 0.7 < 0.8 as floats: still w = 0, in the dtype of the scores."""
    for dtype in (np.float64, np.float32):
        equal, different = np.array([0.1, 0.7], dtype), np.array([0.4, np.nextafter(dtype(0.4), dtype(1))], dtype)
        pairwise = np.array([[[equal[0], different[0]], [different[1], equal[1]]]])
        value, _ = backend.Cut(np.zeros((2, 2), dtype), pairwise, [[0, 1]]).best()
        close(value, 0.7, np.dtype(dtype).name)


def test_edges_of_no_variable_do_not_reach_a_kernel(other):
    other.requires("checked kernels")
    scores = reference.CutScores(np.zeros((2, 2)), np.zeros((1, 2, 2)), np.array([[0, 5]]))
    with pytest.raises(ValueError, match=r"edges: expected 1 pairs of variables in 0..1, got \[\[0, 5\]\]"):
        other.Cut.unchecked(scores).best()
