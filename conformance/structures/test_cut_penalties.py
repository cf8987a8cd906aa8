"""Cuts whose scores hold finite penalties beyond all others, against enumeration in fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelerated.structures.cut import by_networkx

LARGEST = float(np.finfo(np.float64).max)
small = st.sampled_from([0.0, 0.0, 1.0, 2.0, -1.0, 0.1, 0.3, -0.7, 1 / 3, 1e-9, 1e3]) | st.floats(-3.0, 3.0)
FORMS = ["one-sided", "other side", "two-sided", "reward", "label", "forbidden", "both", "none", "none"]


@st.composite
def penalised(draw):
    """Up to 5 variables; small scores, and penalties (and few rewards) of one size on labels and pairs of them."""
    p, big = draw(st.integers(1, 5)), draw(st.sampled_from([1e15, 1e17, 1e20, 1e300, LARGEST]))
    unary = [[draw(small), draw(small)] for _ in range(p)]
    for row in unary:
        row[draw(st.integers(0, 1))] += draw(st.sampled_from([0.0] * 8 + [-big, -np.inf, big]))
    edges, pairwise = [], []
    for edge in draw(st.lists(st.sampled_from([*itertools.permutations(range(p), 2)] or [None]), max_size=6)):
        form, psi = draw(st.sampled_from(FORMS)), [[draw(small), draw(small)], [draw(small), draw(small)]]
        if form in ("one-sided", "two-sided", "both"):
            psi[1][0] = -big
        if form in ("other side", "two-sided"):
            psi[0][1] = -big
        if form in ("forbidden", "both"):
            psi[0][1] = -np.inf
        if form == "reward":
            psi[1][1] = big
        if form == "label":  # the penalty of a label, told of its edge
            psi = [sorted(psi[0], reverse=True), [-big, -big]]
        lack = sum(map(Fraction, (psi[0][1], psi[1][0], -psi[0][0], -psi[1][1]))) if -np.inf not in psi[0] else 0
        psi[0][0] += float(lack) + 0.5 if 0 < lack < 1e5 else 0.0
        if edge is not None:
            edges.append(edge)
            pairwise.append(psi)
    return np.array(unary), np.array(pairwise).reshape(-1, 2, 2), np.array(edges, np.int64).reshape(-1, 2)


def outputs(unary, pairwise, edges):
    """Every labelling that is not forbidden: its score, and the sum of the absolute scores that it uses."""
    for y in itertools.product((0, 1), repeat=len(unary)):
        used = [unary[v, j] for v, j in enumerate(y)] + [pairwise[e, y[a], y[b]] for e, (a, b) in enumerate(edges)]
        if -np.inf not in used:
            terms = [Fraction(float(x)) for x in used]
            yield y, (sum(terms, Fraction(0)), sum(map(abs, terms), Fraction(0)))


def is_best(found, listed):
    """Whether a number is the highest score of those listed, to 1e-12 of the scores used; -inf if there is none."""
    if not listed:
        return found == -np.inf
    best, size = max(listed)
    best = max(min(best, Fraction(LARGEST)), -Fraction(LARGEST))  # larger sums are given as the largest float
    return np.isfinite(found) and abs(Fraction(float(found)) - best) <= Fraction(1e-12) * size + Fraction(1e-300)


@given(instance=penalised())
def test_penalties_that_are_not_paid_do_not_change_accuracy(backend, instance):
    found, cut, edges = dict(outputs(*instance)), backend.Cut(*instance), instance[2]
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


@pytest.mark.parametrize("big", [1e17, LARGEST])
def test_penalties_on_a_grid(other, big):
    """Pairs of labels that cost more than all else are as good as forbidden, at any size of the graph."""
    from conformance.structures.test_cut import grid

    unary, pairwise, edges = grid(40, 2.0)
    some = np.random.default_rng(0).integers(0, len(edges), 200)
    labels = []
    for penalty in (-np.inf, -big):
        pairwise[some, 0, 1] = pairwise[some[::2], 1, 0] = penalty
        unary[::97, 1] = penalty
        labels.append(other.Cut(unary, pairwise, edges).best()[1].tolist())
    assert labels[0] == labels[1]


def test_an_edge_is_judged_where_its_sums_overflow(backend):
    fit, unfit = [[0.0, -LARGEST], [-LARGEST, 0.0]], [[-LARGEST, 0.0], [0.0, -LARGEST]]
    value, labels = backend.Cut([[0.0, 3.0], [2.0, 0.0]], [fit], [[0, 1]]).best()
    assert float(value) == 3.0 and labels.tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"at edge 0 \(0, 1\)"):
        backend.Cut(np.zeros((2, 2)), [unfit], [[0, 1]])
