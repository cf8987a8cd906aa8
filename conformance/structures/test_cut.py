"""Binary variables against integer programs and fractions (Pillutla et al., Algorithm 11)."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from accelerated.structures.cut import by_networkx
from conformance.specimens.outputs import OUTPUTS, exact
from conformance.specimens.scores import joined
from conformance.tolerances import close
from reference import CutScores, grid_edges


def grid(n, coupling, seed=0):
    """A 4-connected n x n grid with random submodular energies."""
    rng = np.random.default_rng(seed)
    edges = grid_edges(n, n)
    pairwise = rng.normal(size=(len(edges), 2, 2))
    pairwise[:, 0, 0] += pairwise[:, 0, 1] + pairwise[:, 1, 0] - pairwise[:, 0, 0] - pairwise[:, 1, 1]
    pairwise[:, 0, 0] += coupling * rng.random(len(edges))
    return rng.normal(size=(n * n, 2)), pairwise, edges


def integer_program(unary, pairwise, edges):
    """The highest score by SciPy's milp: for each node whether it has label 1, for each edge whether both ends do."""
    p, e, (first, second) = len(unary), len(edges), edges.T
    both = pairwise[:, 0, 0] + pairwise[:, 1, 1] - pairwise[:, 0, 1] - pairwise[:, 1, 0]
    gain = unary[:, 1] - unary[:, 0]
    np.add.at(gain, first, pairwise[:, 1, 0] - pairwise[:, 0, 0])
    np.add.at(gain, second, pairwise[:, 0, 1] - pairwise[:, 0, 0])
    edge, node = np.eye(e), np.eye(p)
    at_most = np.block([[-node[first], edge], [-node[second], edge]])  # an edge has both if each end is 1
    found = milp(
        -np.append(gain, both), constraints=LinearConstraint(at_most, ub=0), bounds=Bounds(0, 1), integrality=1
    )
    return unary[:, 0].sum() + pairwise[:, 0, 0].sum() - found.fun


@pytest.mark.parametrize("coupling", [0.5, 2.0, 8.0])
def test_a_grid_is_its_integer_program(backend, coupling):
    instance = grid(9, coupling)
    value, labels = backend.Cut(*instance).best()
    close(value, integer_program(*instance))
    close(backend.Cut(*instance).score(labels), value)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_edge_may_lack_four_units_of_its_magnitudes(backend, dtype, order):
    """psi_00 = psi_11 = psi_01 = 1 and psi_10 = 1 + k eps: a lack of k eps, of 4 eps (4 + k eps) allowed. Where a loss
    brings it, the oracles look at it as the constructor does.
    """
    eps = float(np.finfo(dtype).eps)
    for k in (2, 16, 18, 32, 10000):
        unary, pairwise = np.zeros((2, 2), dtype), np.ones((1, 2, 2), dtype)
        pairwise[(0, *order)] += dtype(k * eps)
        plain = backend.Cut(unary, np.zeros_like(pairwise), [[0, 1]])
        loud = plain.augment(plain.scores._replace(pairwise=pairwise))
        asks = (lambda: backend.Cut(unary, pairwise, [[0, 1]]).best(), loud.best, loud.max_marginals)  # noqa: B023
        for ask in (*asks, loud.node_max_marginals):
            if k <= 16:
                ask()
            else:
                with pytest.raises(ValueError, match=r"pairwise: .* edge 0 \(0, 1\)"):
                    ask()
        if k <= 16:
            close(loud.best()[0], 1.0, np.dtype(dtype).name)


def test_edges_of_no_variable_do_not_reach_a_kernel(other):
    other.requires("checked kernels")
    scores = CutScores(np.zeros((2, 2)), np.zeros((1, 2, 2)), np.array([[0, 5]]))
    with pytest.raises(ValueError, match=r"edges: expected 1 pairs of variables in 0..1, got \[\[0, 5\]\]"):
        other.Cut.unchecked(scores).best()


# penalties beyond all other scores ------------------------------------------------------------------------------------

LARGEST = float(np.finfo(np.float64).max)
small = st.sampled_from([0.0, 0.0, 1.0, 2.0, -1.0, 0.1, 0.3, -0.7, 1 / 3, 1e-9, 1e3]) | st.floats(-3.0, 3.0)
FORMS = [  # what a penalty's size is multiplied by, at pairs of labels of an edge
    *[{}] * 2,
    {(1, 0): -1.0},
    {(0, 1): -1.0},
    {(0, 1): -1.0, (1, 0): -1.0},
    {(1, 1): 1.0},
    {(1, 0): -1.0, (1, 1): -1.0},  # of a label, told of its edge
    {(0, 1): -np.inf},
    {(0, 1): -np.inf, (1, 0): -1.0},
]


@st.composite
def penalised(draw):
    """Up to 5 variables; small scores, and penalties (and few rewards) of one size on labels and pairs of them."""
    p, big = draw(st.integers(1, 5)), draw(st.sampled_from([1e15, 1e17, 1e20, 1e300, LARGEST]))
    unary = np.array([[draw(small), draw(small)] for _ in range(p)])
    for row in unary:
        row[draw(st.integers(0, 1))] += draw(st.sampled_from([0.0] * 8 + [-big, -np.inf, big]))
    edges = draw(joined(p, 6))
    pairwise = np.array([draw(small) for _ in range(4 * len(edges))]).reshape(-1, 2, 2)
    for psi in pairwise:
        for labels, factor in draw(st.sampled_from(FORMS)).items():
            psi[labels] = factor * big
        if psi[0, 1] > -np.inf:
            lack = sum(map(Fraction, (psi[0, 1], psi[1, 0], -psi[0, 0], -psi[1, 1])))
            psi[0, 0] += float(lack) + 0.5 if 0 < lack < 1e5 else 0.0
    return unary, pairwise, edges


def is_best(found, listed):
    """Whether a number is the highest score of those listed, to 1e-12 of the scores used; -inf if there is none."""
    if not listed:
        return found == -np.inf
    best, size = max(listed)
    best = max(min(best, Fraction(LARGEST)), -Fraction(LARGEST))  # larger sums are given as the largest float
    return np.isfinite(found) and abs(Fraction(float(found)) - best) <= Fraction(1e-12) * size + Fraction(1e-300)


@given(instance=penalised())
def test_penalties_that_are_not_paid_do_not_change_accuracy(backend, instance):
    given, cut, edges = CutScores(*instance)._asdict(), backend.Cut(*instance), instance[2]
    found = {each.output: (each.score, each.size) for each in exact(OUTPUTS["Cut"], given)}
    listed = list(found.values())
    solvers = [cut.best, lambda: by_networkx(cut.scores)]
    for solve in solvers if listed else ():
        value, labels = solve()
        best, size = max(listed)
        assert is_best(value, listed)
        assert best - found[tuple(labels.tolist())][0] <= Fraction(1e-12) * size + Fraction(1e-300)
    margins, nodes = cut.max_marginals(), np.asarray(cut.node_max_marginals())
    for v, j in np.ndindex(nodes.shape):
        having = [s for y, s in found.items() if y[v] == j]
        assert is_best(nodes[v, j], having) and is_best(margins.unary[v, j], having)
    for e, i, j in np.ndindex(margins.pairwise.shape):
        a, b = edges[e]
        assert is_best(margins.pairwise[e, i, j], [s for y, s in found.items() if y[a] == i and y[b] == j])
    kbest, ranked = cut.topk(4), sorted(listed, reverse=True)
    assert int(kbest.count) == min(4, len(ranked)) == len({*map(tuple, kbest.labels[: int(kbest.count)].tolist())})
    for value, (best, _) in zip(kbest.scores.tolist(), ranked, strict=False):
        assert is_best(value, [s for s in ranked if s[0] == best])


def test_an_edge_is_judged_where_its_sums_overflow(backend):
    fit, unfit = [[0.0, -LARGEST], [-LARGEST, 0.0]], [[-LARGEST, 0.0], [0.0, -LARGEST]]
    value, labels = backend.Cut([[0.0, 3.0], [2.0, 0.0]], [fit], [[0, 1]]).best()
    assert float(value) == 3.0 and labels.tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"at edge 0 \(0, 1\)"):
        backend.Cut(np.zeros((2, 2)), [unfit], [[0, 1]])
