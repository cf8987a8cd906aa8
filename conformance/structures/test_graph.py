"""Graphs of small treewidth against enumeration, chains, transfer matrices; and what a clique tree is."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given

import reference
from conformance import laws
from conformance.specimens.outputs import listing
from conformance.specimens.scores import graphs, grid_edges
from conformance.tolerances import close
from reference.structures.clique_tree import clique_tree, min_fill


def cycle(p):
    return np.stack([np.arange(p), (np.arange(p) + 1) % p], axis=1)


def wide_clique(rng):
    """Seven variables that are all joined, and five with three neighbours each among them, in any order."""
    pairs = [*itertools.combinations(range(7), 2), *((v, u) for v in range(7, 12) for u in rng.permutation(7)[:3])]
    edges = rng.permutation(12)[np.array(pairs)]
    assert sorted(len(c) for c in clique_tree(12, tuple(map(tuple, edges.tolist()))).cliques) == [4] * 5 + [7]
    return edges


@pytest.mark.parametrize("edges_of", [lambda rng: grid_edges(3), wide_clique], ids=["grid", "clique"])
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
