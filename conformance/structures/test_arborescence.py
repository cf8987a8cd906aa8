"""Dependency trees against enumeration and Cayley's formula (Martins et al., section 4; the matrix-tree theorem)."""

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


@given(values=strategies.dependencies(largest=5), single_root=st.booleans())
def test_the_number_of_trees(backend, values, single_root):
    allowed = np.where(values > -np.inf, 0.0, -np.inf)
    assert backend.Arborescence(values, single_root).count() == np.sum(trees(allowed, single_root)[1] == 0)


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


def test_bad_dependency_trees_are_named(backend):
    for shape in ((3, 3), (4,), (1, 2, 3)):
        with pytest.raises(ValueError, match=r"values: expected shape \(n, n \+ 1\), got \("):
            backend.Arborescence(np.zeros(shape))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="values: expected finite scores, or -inf for a forbidden part"):
            backend.Arborescence(np.array([[bad, 0.0]]))
    with pytest.raises(TypeError, match="single_root: expected True or False, got 'yes'"):
        backend.Arborescence(np.zeros((2, 3)), "yes")
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
