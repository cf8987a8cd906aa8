"""Dependency trees against enumeration, networkx, determinants and Cayley's formula (Martins et al., section 4; the matrix-tree theorem)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import brute, strategies
from conformance.laws import check_structure
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
    """Every tree as heads (n,), and its score: all choices of heads from which everyone reaches the root."""
    n = len(values)
    outputs = []
    for heads in itertools.product(range(n + 1), repeat=n):
        reached, grown = {0}, True
        while grown:
            new = {m + 1 for m, h in enumerate(heads) if h in reached} - reached
            grown, reached = bool(new), reached | new
        if len(reached) == n + 1 and (heads.count(0) == 1 or not single_root or n == 0):
            outputs.append(heads)
    return outputs, np.array([sum((values[m, h] for m, h in enumerate(y)), 0.0) for y in outputs])


def best_with(values, single_root):
    """The max-marginals by enumeration."""
    best = np.full(values.shape, -np.inf)
    for y, score in zip(*trees(values, single_root), strict=True):
        for m, h in enumerate(y):
            best[m, h] = max(best[m, h], score)
    return best


def laplacian(values, single_root):
    """The matrix whose determinant is the sum over trees: root arcs on the diagonal, or in the place of column 0 (Koo et al. 2007)."""
    n = len(values)
    w = np.exp(values)
    w[np.arange(n), np.arange(1, n + 1)] = 0.0
    a = np.diag(w[:, 1:].sum(axis=1)) - w[:, 1:]
    if single_root:
        a[:, 0] = w[:, 0]
        return w, a
    return w, a + np.diag(w[:, 0])


def is_tree(heads, single_root):
    m, steps = np.arange(1, len(heads) + 1), 0
    while np.any(m > 0) and steps <= len(heads):
        m, steps = np.where(m > 0, heads[m - 1], 0), steps + 1
    return bool(np.all(m == 0)) and (not single_root or np.sum(heads == 0) == 1)


# against all trees -------------------------------------------------------------------------------------------------


@roots
@given(data=st.data())
def test_the_best_tree_is_the_best_of_all(backend, space, single_root, data):
    values = np.asarray(data.draw(strategies.dependencies()), dtype=space.dtype).astype(np.float64)
    structure = backend.Arborescence(space.put(values), single_root)
    value, heads = (space.get(x) for x in structure.ops.maximum_arborescence(structure.scores, single_root))
    assert value.shape == () and value.dtype == np.dtype(space.dtype)
    assert heads.shape == values.shape[:1] and heads.dtype == np.int64
    outputs, scores = trees(values, single_root)
    if scores.max() == -np.inf:
        assert value == -np.inf and np.all(heads == -1)
        for ask in (structure.best, structure.expectation):
            with pytest.raises(backend.InfeasibleError, match="every output is forbidden"):
                ask()
        return
    close(value, scores.max(), space.dtype)
    close(scores[outputs.index(tuple(heads.tolist()))], value, space.dtype)
    close(space.get(structure.best()[0]), value, space.dtype)
    assert list(structure.enumerate()) == [y for y, s in zip(outputs, scores, strict=True) if s > -np.inf]


@roots
@given(data=st.data())
def test_every_question_about_trees_agrees_with_enumeration(backend, single_root, data):
    check_structure(backend.Arborescence(data.draw(strategies.dependencies()), single_root))


@roots
@given(data=st.data())
def test_max_marginals_of_arcs_are_the_best_scores_with_them(backend, space, single_root, data):
    values = np.asarray(data.draw(strategies.dependencies()), dtype=space.dtype).astype(np.float64)
    found = space.get(backend.Arborescence(space.put(values), single_root).max_marginals().values)
    assert found.dtype == np.dtype(space.dtype)
    close(found, best_with(values, single_root), space.dtype)


@roots
@given(data=st.data(), mu=st.sampled_from([0.2, 1.0, 30.0]))
def test_the_partition_is_the_sum_over_all_trees(backend, space, single_root, data, mu):
    values = np.asarray(data.draw(strategies.dependencies()), dtype=space.dtype).astype(np.float64)
    outputs, scores = trees(values, single_root)
    expected, probabilities = brute.log_sum_exp(scores, mu)
    marginals = np.zeros(values.shape)
    for y, p in zip(outputs, probabilities, strict=True):
        marginals[np.arange(len(y)), list(y)] += p
    structure = backend.Arborescence(space.put(values), single_root)
    value, found = structure.ops.tree_partition(structure.scores, mu, single_root)
    assert space.get(value).dtype == space.get(found.values).dtype == np.dtype(space.dtype)
    close(space.get(value), expected, space.dtype)
    size = np.abs(values[np.isfinite(values)]).max(initial=mu) / mu if space.dtype == "float64" else 1.0
    close(space.get(found.values), marginals, space.dtype, scale=max(1.0, size * 1e-3))


@roots
@given(data=st.data(), k=st.integers(1, 40))
def test_the_k_best_trees(backend, space, single_root, data, k):
    values = np.asarray(data.draw(strategies.dependencies()), dtype=space.dtype).astype(np.float64)
    best = backend.Arborescence(space.put(values), single_root).topk(k)
    outputs, scores = trees(values, single_root)
    expected = np.sort(scores[scores > -np.inf])[::-1][:k]
    found, labels, count = (space.get(x) for x in best)
    assert count == len(expected) and labels.shape == (k, len(values)) and labels.dtype == np.int64
    close(found[:count], expected, space.dtype)
    of = dict(zip(outputs, scores, strict=True))
    close([of[tuple(y)] for y in labels[:count].tolist()], found[:count], space.dtype)
    assert len({tuple(y) for y in labels[:count].tolist()}) == count
    assert np.all(found[count:] == -np.inf) and np.all(labels[count:] == -1)


@given(values=strategies.dependencies(), k=st.integers(1, 12))
def test_best_max_marginal_first_finds_the_same_trees(backend, values, k):
    structure = backend.Arborescence(values, single_root=True)
    close(backend.bmmf(structure, k).scores, structure.topk(k).scores)


@given(data=st.data())
def test_expected_parts_of_trees(backend, space, data):
    structure = backend.Arborescence(space.put(data.draw(strategies.dependencies(forbidden=False))))
    found = structure.topk(3)
    weights = np.array([0.5, 0.3, 0.2])
    weights[int(found.count) :] = 0.0
    each = [found.labels[k, ...] for k in range(int(found.count))]
    total = sum(u * space.get(structure.parts(y).values) for u, y in zip(weights, each, strict=False))
    close(space.get(structure.expected_parts(found.labels, space.put(weights)).values), total, space.dtype)


# beyond enumeration ------------------------------------------------------------------------------------------------


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
    """Exchanges: no arc of a best tree of 70 tokens can be replaced with a gain; each max-marginal of a token reaches the best score."""
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


@given(values=strategies.dependencies(largest=5), single_root=st.booleans())
def test_the_number_of_trees(backend, values, single_root):
    allowed = np.where(values > -np.inf, 0.0, -np.inf)
    assert backend.Arborescence(values, single_root).count() == np.sum(trees(allowed, single_root)[1] == 0)


# scales ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [1.0, 30.0, 600.0, 1e4])
@pytest.mark.parametrize("n", [2, 3, 20, 50])
def test_a_ring_that_hardly_anyone_leaves(backend, c, n):
    """Each token's head is the next one, or the root at e^-c: Z = (1 + e^-c)^n - 1, n e^-c with a single root. Products underflow."""
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
    """Small pivots of which each alone is representable: two tokens in a cycle, the way out twice as deep, and a detour that counts."""
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
    expected, probabilities = brute.log_sum_exp(scores, 1.0)
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
@pytest.mark.parametrize("exponent", [-900, -400, 0, 400, 990])
def test_scales_of_trees(backend, rng, exponent, single_root):
    """A power of two changes no rounding: the same tree, its score scaled exactly (up to 1e298)."""
    values = KINDS["nested"](rng, 15)
    plain, scaled = (backend.Arborescence(v, single_root) for v in (values, np.ldexp(values, exponent)))
    assert np.array_equal(scaled.best()[1], plain.best()[1])
    assert scaled.best()[0] == np.ldexp(plain.best()[0], exponent)


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


# what is refused ---------------------------------------------------------------------------------------------------


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


def test_bad_dependency_trees_are_named(backend):
    for shape in ((3, 3), (4,), (1, 2, 3)):
        with pytest.raises(ValueError, match=r"values: expected shape \(n, n \+ 1\), got \("):
            backend.Arborescence(np.zeros(shape))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="values: expected finite scores, or -inf for a forbidden part"):
            backend.Arborescence(np.array([[bad, 0.0]]))
    with pytest.raises(TypeError, match="single_root: expected True or False, got 'yes'"):
        backend.Arborescence(np.zeros((2, 3)), "yes")
    with pytest.raises(ValueError, match="solver: expected one of auto.*, got 'eisner'"):
        backend.Arborescence(np.zeros((2, 3)), solver="eisner")
    structure = backend.Arborescence(np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"y: expected a head for each of 3 tokens, got shape \(2,\)"):
        structure.parts([0, 1])
    with pytest.raises(TypeError, match="y: expected integers"):
        structure.parts([0.0, 1.0, 1.0])
    for bad in ([0, 4, 1], [-1, 0, 1]):
        with pytest.raises(ValueError, match=r"y: expected heads in 0..3, got \["):
            structure.parts(bad)
    with pytest.raises(ValueError, match=r"y: expected a tree, got the cycle of tokens \[1, 2\] in \[2, 1, 0\]"):
        structure.score([2, 1, 0])
    with pytest.raises(ValueError, match=r"y: expected a tree, got the cycle of tokens \[3\]"):
        structure.score([0, 1, 3])
    single = backend.Arborescence(np.zeros((3, 4)), single_root=True)
    with pytest.raises(ValueError, match=r"y: expected a single token of head 0, got \[0, 0, 1\]"):
        single.parts([0, 0, 1])
    assert structure.score([-1, -1, -1]) == 0.0  # as the oracle says that there is no tree


def test_single_roots_and_solvers_stay(backend):
    """Whatever is derived from a structure keeps to what its trees are."""
    structure = backend.Arborescence(np.zeros((3, 4)), single_root=True)
    ones = backend.ArborescenceScores(np.ones((3, 4)))
    for derived in (structure.augment(ones), structure.constrained(np.ones((3, 4), bool))):
        assert derived.single_root and derived.solver == structure.solver and derived.count() == 9


# misprints and mistakes --------------------------------------------------------------------------------------------


def test_the_root_at_a_discount_is_no_single_root():
    """Root arcs made cheap by a finite constant: where scores are larger than it, two of them are still best."""
    values = np.array([[1e3, 0.0, -1e3], [1e3, -1e3, 0.0]])
    outputs, scores = trees(np.where(np.arange(3) == 0, values - 100.0, values), single_root=False)
    assert outputs[int(np.argmax(scores))] == (0, 0)


@roots
@given(values=strategies.dependencies())
def test_networkx_as_a_solver_agrees(values, single_root):
    import accelerated

    ours = accelerated.Arborescence(values, single_root)
    theirs = accelerated.Arborescence(values, single_root, solver="networkx")
    if ours.count() == 0:
        with pytest.raises(accelerated.InfeasibleError):
            theirs.best()
        return
    close(theirs.best()[0], ours.best()[0])
    ones = accelerated.ArborescenceScores(np.ones(values.shape))
    close(theirs.augment(ones).best()[0], ours.best()[0] + len(values))
