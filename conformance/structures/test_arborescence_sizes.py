"""Dependency trees beyond enumeration: networkx, greedy trees, determinants, differences, scales, islands; both
panels.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from conformance.specimens.outputs import log_sum_exp
from conformance.structures.test_arborescence import KINDS, is_tree, roots, trees
from conformance.tolerances import close


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


def networkx_best(values):
    """The best score by networkx; -inf if there is no tree."""
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(values) + 1))
    for m, h in np.argwhere(values > -np.inf):
        if h != m + 1:
            graph.add_edge(int(h), int(m) + 1, weight=float(values[m, h]))
    try:
        tree = networkx.maximum_spanning_arborescence(graph)
    except networkx.NetworkXException:
        return -np.inf
    return sum(weight for _, _, weight in tree.edges(data="weight"))


@roots
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 20])
def test_networkx_finds_no_better_tree(backend, rng, kind, n, single_root):
    for _ in range(1 if n > 9 else 3):
        values = KINDS[kind](rng, n)
        expected = networkx_best(values)
        if single_root:  # each token in turn is the only one that the root may head
            only = [np.where((np.arange(n + 1) > 0) | (np.arange(n)[:, None] == r), values, -np.inf) for r in range(n)]
            expected = max(networkx_best(v) for v in only)
        structure = backend.Arborescence(values, single_root)
        value, heads = (np.asarray(x) for x in structure.ops.maximum_arborescence(structure.scores, single_root))
        close(value, expected)
        if expected > -np.inf:
            assert is_tree(heads, single_root)
            close(values[np.arange(n), heads].sum(), value)


@roots
@pytest.mark.parametrize("kind", KINDS)
def test_a_greedy_tree_is_not_beaten(backend, rng, kind, single_root):
    """Exchanges: no arc of a best tree of 70 tokens can be replaced with a gain; each max-marginal of a token
    reaches the best score.
    """
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
@pytest.mark.parametrize("depth", [1e2, 3e2, 4.4e2, 7e2, 1e3])
def test_weights_that_underflow_on_the_way(backend, single_root, depth):
    """Small pivots of which each alone is representable: two tokens in a cycle, the way out twice as deep, and a
    detour that counts.
    """
    inf = -np.inf
    values = np.array(
        [
            [-3.0 * depth, 0.0, 0.0, inf, -depth],
            [-3.0 * depth, 0.0, 0.0, -2.0 * depth, inf],
            [-depth, inf, -1.5 * depth, 0.0, 0.0],
            [-2.0 * depth, -depth, inf, 0.0, 0.0],
        ]
    )
    outputs, scores = trees(np.where(np.eye(4, 5, 1) > 0, inf, values), single_root)
    expected, probabilities = log_sum_exp(scores, 1.0)
    value, marginals = backend.Arborescence(values, single_root).expectation()
    close(value, expected)
    total = np.zeros(values.shape)
    for y, p in zip(outputs, probabilities, strict=True):
        total[np.arange(4), list(y)] += p
    close(marginals.values, total)


@roots
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mu", [1e-3, 0.1])
def test_at_low_temperature_the_best_tree_is_left(backend, rng, kind, mu, single_root):
    """best <= mu log Z <= best + mu log(number of trees), Proposition 9's bounds, and marginals that say so."""
    structure = backend.Arborescence(KINDS[kind](rng, 18), single_root)
    count = structure.count()
    if not count:
        return
    best, value = float(structure.best()[0]), float(structure.log_partition(mu))
    slack = 1e-9 * max(1.0, abs(best))
    assert best - slack <= value <= best + mu * math.log(count) + slack
    marginals = np.asarray(structure.marginals(mu).values)
    close(marginals.sum(axis=1), np.ones(18))
    assert np.all(marginals > -1e-12) and np.all(marginals[np.arange(18), np.arange(1, 19)] == 0)


@roots
def test_arcs_of_very_different_scores(backend, single_root):
    values = np.array([[1e300, 0.0, 1e-300, -1e300], [-1e300, 1e300, 0.0, -0.0], [1.0, -1e300, 1e300, 0.0]])
    structure = backend.Arborescence(values, single_root)
    value, heads = structure.best()
    assert value == 3e300 and np.asarray(heads).tolist() == [0, 1, 2]
    close(structure.log_partition(), 3e300)
    close(structure.marginals().values, structure.parts([0, 1, 2]).values)


@roots
def test_a_constant_on_a_token_and_another_order(backend, rng, single_root):
    n = 11
    values, c, order = rng.normal(size=(n, n + 1)), 100.0 * rng.normal(size=n), rng.permutation(n)
    columns = np.concatenate([[0], order + 1])
    plain = backend.Arborescence(values, single_root)
    raised = backend.Arborescence((values + c[:, None])[np.ix_(order, columns)], single_root)
    close(raised.best()[0], plain.best()[0] + c.sum())
    close(raised.log_partition(), plain.log_partition() + c.sum())
    close(raised.marginals().values, np.asarray(plain.marginals().values)[np.ix_(order, columns)])
    close(raised.max_marginals().values, np.asarray(plain.max_marginals().values)[np.ix_(order, columns)] + c.sum())
    close(raised.topk(9).scores, np.asarray(plain.topk(9).scores) + c.sum())


@roots
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [6, 11])
def test_own_heads_are_ignored(backend, rng, kind, n, single_root):
    values = KINDS[kind](rng, n)
    loops = values.copy()
    loops[np.arange(n), np.arange(1, n + 1)] = 1e5
    plain, other = backend.Arborescence(values, single_root), backend.Arborescence(loops, single_root)
    if plain.count() == 0:
        return
    assert other.best()[0] == plain.best()[0]
    close(other.log_partition(), plain.log_partition())
    close(other.marginals().values, plain.marginals().values)
    close(other.max_marginals().values, plain.max_marginals().values)


@roots
def test_two_islands_have_no_single_root(backend, single_root):
    """Tokens 1, 2 and 3, 4 without an arc between: two roots at least."""
    values = np.zeros((4, 5))
    values[:2, 3:] = values[2:, 1:3] = -np.inf
    structure = backend.Arborescence(values, single_root)
    if single_root:
        assert structure.count() == 0 and list(structure.enumerate()) == []
        assert structure.topk(2).count == 0 and np.all(np.asarray(structure.max_marginals().values) == -np.inf)
        for ask in (structure.best, structure.expectation):
            with pytest.raises(backend.InfeasibleError):
                ask()
    else:
        assert structure.count() == 9
        close(structure.log_partition(), math.log(9))


@roots
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [5, 13, 24])
def test_panels_agree_about_trees(other, rng, kind, n, single_root):
    import reference

    values = KINDS[kind](rng, n)
    ours, theirs = (panel.Arborescence(values, single_root) for panel in (other, reference))
    if theirs.count() == 0:
        for ask in (ours.best, ours.expectation):
            with pytest.raises(other.InfeasibleError):
                ask()
        return
    close(ours.best()[0], theirs.best()[0])
    close(ours.log_partition(), theirs.log_partition())
    close(ours.marginals().values, theirs.marginals().values)
    close(ours.topk(6).scores, theirs.topk(6).scores)
    if n < 20:
        close(ours.max_marginals().values, theirs.max_marginals().values)
