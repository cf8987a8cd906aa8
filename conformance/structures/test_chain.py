"""Chains, trees and graphs beyond enumeration (Pillutla et al., Algorithms 1, 3, 7 and 9, Remark 10): exact counts,
closed forms, weights that underflow as plain numbers and yet count, messages that are normalised at every node;
transfer matrices, and what a clique tree is.
"""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given

import reference
from conformance import laws
from conformance.specimens.outputs import listing
from conformance.specimens.scores import graphs, random_parents
from conformance.tolerances import close
from reference.structures.clique_tree import clique_tree, min_fill

EPS = np.finfo(np.float64).eps


def test_count_is_exact_beyond_int64(backend):
    assert backend.Chain(np.zeros((100, 26)), np.zeros((26, 26))).count() == 26**100
    cycle = np.full((3, 3), -np.inf)
    cycle[[0, 1, 2], [1, 2, 0]] = 0.0
    assert backend.Chain(np.zeros((1000, 3)), cycle).count() == 3
    star, forbidden = np.array([-1] + [0] * 99), np.array([[0.0, 0.0], [-np.inf, 0.0]])
    assert backend.Tree(np.zeros((100, 3)), np.zeros((3, 3)), star, [3] + [2] * 99).count() == 3 * 2**99
    assert backend.Tree(np.zeros((100, 2)), forbidden, star).count() == 2**99 + 1


@pytest.mark.parametrize("level", [-1024.0, 2.0**20])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("far", [0.0, 400.0])
def test_a_common_level_of_all_scores_changes_no_marginal(backend, rng, level, shared, far):
    """Scores are multiples of 1/64, so that the sums with the level are exact; by ``far`` one transition is too rare
    for products of probabilities.

    A position rounds by a few eps of the level. Messages that are not normalised, n times the level large, would round
    by n times that.
    """
    n, L = 1000, 3
    unary = np.round(64 * rng.normal(size=(n, L))) / 64
    pairwise = np.round(64 * rng.normal(size=(L, L) if shared else (n - 1, L, L))) / 64
    pairwise[..., 0, 1] -= far
    value, marginals = backend.Chain(unary, pairwise).expectation()
    raised, same = backend.Chain(unary + level, pairwise).expectation()
    np.testing.assert_allclose(raised, value + n * level, rtol=1e-13)
    slack = 32 * EPS * abs(level)
    for other in (marginals, same):
        np.testing.assert_allclose(np.sum(other.unary, axis=1), 1.0, rtol=0, atol=slack)
        np.testing.assert_allclose(np.sum(other.pairwise), n - 1, rtol=0, atol=n * slack)
    np.testing.assert_allclose(same.unary, marginals.unary, rtol=0, atol=slack)
    np.testing.assert_allclose(same.pairwise, marginals.pairwise, rtol=0, atol=(n if shared else 1) * slack)


# closed forms ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["chain", "tree", "path", "star", "forest"])
@pytest.mark.parametrize("p", [1500, 4000])
def test_many_independent_nodes(backend, rng, shape, p):
    """Values that can be computed in closed form: no pairwise scores. The next best outputs change the one node where
    the second label costs least. Nothing recurs.
    """
    unary, own, chain = rng.normal(scale=10.0, size=(p, 3)), np.zeros((3, 3)), shape == "chain"
    structure = backend.Chain(unary, own) if chain else backend.Tree(unary, own, random_parents(rng, p, shape))
    value, labels = structure.best()
    close(value, unary.max(axis=1).sum())
    assert np.array_equal(labels, unary.argmax(axis=1))
    value, marginals = structure.expectation()
    weights = np.exp(unary - unary.max(axis=1, keepdims=True))
    close(value, (np.log(weights.sum(axis=1)) + unary.max(axis=1)).sum())
    close(marginals.unary, weights / weights.sum(axis=1, keepdims=True))
    close(np.asarray(marginals.pairwise).sum(), p - (1.0 if chain else np.sum(structure.scores.parents < 0)))
    if p < 2000:
        best, ordered = structure.topk(3), np.sort(unary, axis=1)
        gaps = np.sort(ordered[:, 2] - ordered[:, 1])[:2]
        close(best.scores, ordered[:, 2].sum() - np.array([0.0, *gaps]))
        assert np.all(np.sum(np.asarray(best.labels) != labels, axis=1) == [0, 1, 1])


@pytest.mark.parametrize("weight", [0.0, 1.0, 60.0, 100.0, 149.0, 151.0, 300.0, 1000.0])
@pytest.mark.parametrize("children", [1, 4, 5, 8, 40])
@pytest.mark.parametrize("sides", ["agree", "apart", "alternate"])
def test_a_star_is_summed_by_hand(backend, weight, children, sides):
    """Leaves that cost ``weight`` each where they differ from the root, and are all for label 1, or half of them for
    each label. Products of messages underflow; scores of the root outweigh them or not.
    """
    for own in (0.0, weight * children, 2.0 * weight * children, -700.0):
        p = children + 1 if sides == "agree" else 2 * children + 1
        unary, leaf = np.zeros((p, 2)), np.arange(1, p)
        if sides == "agree":
            unary[0, 0], unary[1:, 0] = own, -weight / 2
        else:
            one = leaf > children if sides == "apart" else leaf % 2 == 0
            unary[0, 0], unary[leaf[one], 0], unary[leaf[~one], 1] = own, -5000.0, -5000.0
        pairs = np.array([[0.0, -weight], [-weight, 0.0]])
        root = unary[0] + np.logaddexp(*(unary[1:, None, :] + pairs).transpose(2, 0, 1)).sum(axis=0)
        for pairwise in (pairs, np.broadcast_to(pairs, (p, 2, 2)).copy()):
            value, marginals = backend.Tree(unary, pairwise, np.append(-1, np.zeros(p - 1, int))).expectation()
            close(value, np.logaddexp(*root))
            close(marginals.unary[0], np.exp(root - np.logaddexp(*root)), scale=max(1.0, np.abs(root).max()))


# against enumeration in logarithms ------------------------------------------------------------------------------------

# Scores of one transition: weights, their squares and their cubes get lost beyond 400, 200 and 248.
DEPTHS = [100.0, 149.0, 150.0, 151.0, 187.0, 195.0, 201.0, 249.0, 300.0, 372.0, 389.0, 391.0, 399.0, 401.0, 760.0]


def faint(depth):
    """Label 0 at the ends, and 1 between for 2 depth; or label 0 throughout, for a little less or more. Then three
    labels: 0 stays; 1 becomes 2, and loses three times the depth in one step; then 0 loses as much, or nearly.
    """
    for stay, lost in itertools.product((1, 3, 4), (1.98, 2.0, 2.02, max(400.1 / depth, 2.0), 640.0 * 4 / depth)):
        unary = np.zeros((stay + 2, 2))
        unary[1:-1, 0] = -lost * depth / stay
        unary[[0, -1], 1] = -5000.0
        yield unary, np.array([[0.0, -depth], [-depth, 0.0]])
    for factor in (0.99, 1.0, 1.01):
        unary, pairwise = np.zeros((5, 3)), np.full((3, 3), -np.inf)
        unary[0, 1] = unary[1, 2] = pairwise[1, 2] = -depth
        unary[0, 2], unary[2:, 0] = -np.inf, -depth * factor
        pairwise[0, 0] = pairwise[2, 2] = 0.0
        yield unary, pairwise


@pytest.mark.parametrize("depth", DEPTHS)
def test_labels_that_underflow_and_count(backend, depth):
    """A chain, the path as a tree, with shared and with own transitions, and segments of a token have the same sums."""
    for unary, pairwise in faint(depth):
        n, L = unary.shape
        each = np.broadcast_to(pairwise, (n - 1, L, L))
        expected, means = listing("Chain", {"unary": unary, "pairwise": each}).expectation(1.0)
        below, parents = np.concatenate([np.zeros((1, L, L)), each]), np.arange(-1, n - 1)
        for structure in (
            backend.Chain(unary, pairwise),
            backend.Chain(unary, each.copy()),
            backend.Tree(unary, pairwise, parents),
            backend.Tree(unary, below, parents),
            backend.Segments(unary[:, None, :], pairwise),
        ):
            value, marginals = structure.expectation()
            close(value, expected)
            close(np.reshape(marginals[0], unary.shape), means["unary"])
            shared = np.ndim(marginals.pairwise) == 2
            edges = means["pairwise"].sum(axis=0) if shared else means["pairwise"]
            close(marginals.pairwise if shared else np.asarray(marginals.pairwise)[1 - n :], edges)


# as printed -----------------------------------------------------------------------------------------------------------


def test_linear_messages_overflow_and_vanish(backend):
    """Algorithm 9 as printed multiplies exp(psi): at 800 it is inf, at -800 it says that nothing is possible."""
    for unary, expected in (([800.0, 0.0], 800.0), ([-800.0, -801.0], -800.0 + math.log1p(math.exp(-1.0)))):
        with np.errstate(over="ignore", divide="ignore"):
            as_printed = np.log(np.sum(np.exp(np.array(unary))))
        assert not np.isfinite(as_printed)
        close(backend.Tree([unary], np.zeros((2, 2)), [-1]).log_partition(), expected)


def test_remark_44_divides_zero_by_zero(backend):
    """Where a parent's label forbids all of its child's, the message is 0 and so is the marginal: 0/0, but the
    answer is 0.
    """
    unary, pairwise = np.zeros((2, 2)), np.array([[0.0, 0.0], [-np.inf, -np.inf]])
    up = np.exp(pairwise) @ np.ones(2)  # from the child, for each label of the parent
    down = np.exp(pairwise).T @ np.ones(2)
    A = np.log(up.sum())
    node, child = up / up.sum(), down / down.sum()
    with np.errstate(invalid="ignore"):
        as_printed = node[:, None] * child * np.exp(pairwise + A) / (up[:, None] * down)
    assert np.isnan(as_printed[1]).all()
    marginals = backend.Tree(unary, pairwise, [-1, 0]).marginals()
    close(as_printed[0], np.asarray(marginals.pairwise)[0])
    close(marginals.pairwise, [[0.5, 0.5], [0.0, 0.0]])


# graphs of small treewidth --------------------------------------------------------------------------------------------


def cycle(p):
    return np.stack([np.arange(p), (np.arange(p) + 1) % p], axis=1)


def wide_clique(rng):
    """Seven variables that are all joined, and five with three neighbours each among them, in any order."""
    pairs = [*itertools.combinations(range(7), 2), *((v, u) for v in range(7, 12) for u in rng.permutation(7)[:3])]
    edges = rng.permutation(12)[np.array(pairs)]
    assert sorted(len(c) for c in clique_tree(12, tuple(map(tuple, edges.tolist()))).cliques) == [4] * 5 + [7]
    return edges


@pytest.mark.parametrize("edges_of", [lambda rng: reference.grid_edges(3, 3), wide_clique], ids=["grid", "clique"])
@pytest.mark.parametrize("ties", [False, True])
def test_graphs_are_tables_of_all_labellings(backend, rng, edges_of, ties):
    edges = edges_of(rng)
    p, draw = int(edges.max()) + 1, rng.normal if not ties else lambda size: rng.integers(-1, 2, size).astype(float)
    scores = reference.GraphScores(draw(size=(p, 2)), draw(size=(len(edges), 2, 2)), edges)
    graph, outputs = backend.Graph(*scores), listing("Graph", scores._asdict())
    laws.check_best(graph, outputs)
    laws.check_top_k(graph, outputs, 7)
    laws.check_max_marginals(graph, outputs)
    laws.check_expectation(graph, outputs, 0.7)
    assert graph.count() == 2**p


def test_a_long_cycle_is_a_product_of_transfer_matrices(backend, rng):
    """max and log-sum-exp around the cycle; 3^400 labellings, counted exactly, of which a forbidden pair takes some."""
    p, L = 400, 3
    unary, pairwise = rng.normal(size=(p, L)), rng.normal(size=(p, L, L))
    pairwise[:, 0, 1] = -np.inf
    graph = backend.Graph(unary, pairwise, cycle(p))
    steps = pairwise + unary[:, :, None]
    best, ways = np.where(np.eye(L) > 0, 0.0, -np.inf), np.eye(L, dtype=int).astype(object)
    log_z, shift = np.eye(L), 0.0
    for step in steps:
        best = np.max(best[:, :, None] + step, axis=1)
        log_z = log_z @ np.exp(step)
        shift += np.log(log_z.max())
        log_z /= log_z.max()
        ways = ways @ np.where(step > -np.inf, 1, 0).astype(object)
    close(graph.best()[0], np.diag(best).max())
    close(graph.expectation()[0], np.log(np.trace(log_z)) + shift)
    assert graph.count() == int(np.trace(ways))


@given(instance=graphs())
def test_a_clique_tree_is_one(instance):
    """Every variable and every edge has a clique; the cliques with a variable are connected; parents come before
    children.
    """
    p, edges = len(instance.unary), [tuple(edge) for edge in instance.edges.tolist()]
    tree = clique_tree(p, tuple(edges))
    assert [v in tree.cliques[tree.nodes[v]] for v in range(p)] == [True] * p
    assert all({a, b} <= set(tree.cliques[c]) for (a, b), c in zip(edges, tree.edges, strict=True))
    assert tree.parents[0] == -1 and all(0 <= parent < c for c, parent in enumerate(tree.parents) if c)
    assert all(tree.parents[d] == c for c, below in enumerate(tree.children) for d in below)
    for v in range(p):  # connected in a tree: one of them alone has a parent without v
        mine = [c for c, clique in enumerate(tree.cliques) if v in clique]
        assert sum(c == 0 or v not in tree.cliques[tree.parents[c]] for c in mine) == 1
    assert [len(clique) for clique in tree.cliques[1:]] == [len(shared) + 1 for shared in tree.shared[1:]]
    assert tree.width == max(map(len, tree.cliques)) - 1
    near = [{a for e in edges for a in e if v in e and a != v} for v in range(p)]
    eliminated, core = min_fill(p, edges)
    left = set(range(p))
    for v, neighbours in eliminated:  # the fewest new edges, counted anew; then the smallest degree and number
        missing = {u: [e for e in itertools.combinations(near[u] & left, 2) if e[1] not in near[e[0]]] for u in left}
        assert v == min(left, key=lambda u: (len(missing[u]), len(near[u] & left), u)) and neighbours == near[v] & left
        for a, b in missing[v]:
            near[a].add(b)
            near[b].add(a)
        left.remove(v)
    assert core == left and all(left <= near[v] | {v} for v in left)


def wheel(p):
    return np.concatenate([[[0, v] for v in range(1, p)], cycle(p - 1) + 1])


@pytest.mark.parametrize("edges_of", [lambda p: cycle(p)[1:], cycle, wheel])
@pytest.mark.parametrize("ask", ["make", "best", "expectation", "count", "topk", "sample"])
def test_work_grows_as_the_number_of_variables(backend, edges_of, ask):
    """Lines of Python: at most 2.5 times as many for twice the variables."""

    def lines(p):
        edges, count, before = edges_of(p), 0, sys.gettrace()

        def trace(frame, event, argument):
            nonlocal count
            count += event == "line"
            return trace

        make = lambda: backend.Graph(np.zeros((p, 2)), np.zeros((len(edges), 2, 2)), edges)  # noqa: E731
        run = make if ask == "make" else getattr(make(), ask)
        sys.settrace(trace)
        try:
            run(*[2] * (ask in ("topk", "sample")))
        finally:
            sys.settrace(before)
        return count

    lines(7)  # compiles
    assert lines(100) < 2.5 * lines(50)


def test_what_would_not_fit_is_refused_by_its_width(backend, rng):
    edges = np.array(list(itertools.combinations(range(7), 2)))
    unary, pairwise = np.zeros((7, 3)), np.zeros((21, 3, 3))
    message = r"width 6, and a clique's table of 3 x 3 x 3 x 3 x 3 x 3 x 3 = 2187 entries; max_table allows 2000"
    with pytest.raises(ValueError, match=message):
        backend.Graph(unary, pairwise, edges, max_table=2000)
    graph = backend.Graph(unary, pairwise, edges, [3, 2, 3, 3, 3, 3, 3], max_table=2000)
    graph.topk(2)  # constrained graphs have the same limit
    assert graph.augment(graph.scores).max_table == graph.constrained(np.ones((7, 3), bool)).max_table == 2000
    with pytest.raises(ValueError, match="width 29, .* max_table allows 1048576"):
        pairs = np.array(list(itertools.combinations(range(30), 2)))
        backend.Graph.unchecked(backend.GraphScores(np.zeros((30, 2)), np.zeros((435, 2, 2)), pairs)).best()


def test_labels_outside_have_no_parts(backend):
    graph = backend.Graph(np.ones((2, 2)), np.ones((1, 2, 2)), [[0, 1]], [1, 2])
    assert [float(graph.score(y)) for y in ([0, 1], [1, 1], [-1, -1])] == [3.0, 1.0, 0.0]
