"""Whole outputs drawn at random: each draw is held against the distribution function, by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.strategies import chains, tables, trees
from conformance.tolerances import close

NUMBERS = st.one_of(st.sampled_from([0.0, 0.5, 1.0 - 2**-53, 1.0]), st.floats(0.0, 1.0))


def probabilities(score_of, outputs, mu):
    """exp(score / mu) / Z of every output; None where all are forbidden."""
    scores = np.array([score_of(y) for y in outputs])
    if not np.any(scores > -np.inf):
        return None
    weights = np.exp((scores - scores.max()) / mu)
    return weights / weights.sum()


def picks(distribution, uniform, label, slack=1e-9):
    """Whether the label is the one that the number picks: its probability is not 0 and the distribution function
    passes the number there.
    """
    below = np.cumsum(distribution)
    return distribution[label] > 0 and below[label] - distribution[label] - slack <= uniform <= below[label] + slack


def check_draw(outputs, p, order, drawn, uniform, L):
    """A draw, variable by variable in ``order``: each picked by its number from the distribution given those before
    it.
    """
    given_before = p.copy()
    for v in order:
        conditional = np.zeros(L)
        for y, weight in zip(outputs, given_before, strict=True):
            conditional[y[v]] += weight
        assert picks(conditional / conditional.sum(), uniform[v], drawn[v])
        given_before = given_before * np.array([y[v] == drawn[v] for y in outputs])


def chain_score(unary, pairwise, y):
    nodes = sum((unary[t, label] for t, label in enumerate(y)), 0.0)
    return nodes + sum((pairwise[t - 1, y[t - 1], y[t]] for t in range(1, len(y))), 0.0)


@given(chains(), st.sampled_from([0.3, 1.0, 5.0]), st.data())
def test_chains_are_drawn_by_their_distribution_function(backend, instance, mu, data):
    *batch, n, L = instance.unary.shape
    size = 3
    cells = int(np.prod(batch)) * size * n
    uniform = np.array(data.draw(st.lists(NUMBERS, min_size=cells, max_size=cells))).reshape(*batch, size, n)
    space = backend.Chain(instance.unary, instance.pairwise, instance.lengths)
    value, labels = space.ops.sample(space.scores, uniform, mu)
    shape = (int(np.prod(batch)), size, n)
    flat, numbers, values = labels.reshape(shape), uniform.reshape(shape), np.reshape(value, -1)
    for b, (unary, pairwise) in enumerate(instance.each()):
        m = len(unary)
        outputs = list(itertools.product(range(L), repeat=m))
        p = probabilities(lambda y, u=unary, w=pairwise: chain_score(u, w, y), outputs, mu)
        assert np.all(flat[b, :, m:] == -1)
        if p is None:
            assert values[b] == -np.inf and np.all(flat[b] == -1)
            continue
        for s in range(size):
            check_draw(outputs, p, range(m - 1, -1, -1), flat[b, s], numbers[b, s], L)
    if np.all(values > -np.inf):
        close(value, space.log_partition(mu), scale=10.0 + np.abs(values[np.isfinite(values)]).sum())


@given(trees(), st.sampled_from([0.3, 1.0, 5.0]), st.data())
def test_trees_are_drawn_by_their_distribution_function(backend, instance, mu, data):
    *batch, p_nodes, L = instance.unary.shape
    size = 2
    cells = int(np.prod(batch)) * size * p_nodes
    uniform = np.array(data.draw(st.lists(NUMBERS, min_size=cells, max_size=cells))).reshape(*batch, size, p_nodes)
    space = backend.Tree(instance.unary, instance.pairwise, instance.parents, instance.counts)
    value, labels = space.ops.sample(space.scores, uniform, mu)
    shape = (int(np.prod(batch)), size, p_nodes)
    flat, numbers = labels.reshape(shape), uniform.reshape(shape)
    depth = [sum(1 for _ in ancestors(instance.parents, v)) for v in range(p_nodes)]
    order = sorted(range(p_nodes), key=lambda v: depth[v])
    counts = np.full(p_nodes, L) if instance.counts is None else instance.counts
    for b, tree in enumerate(instance.each()):

        def score(y, tree=tree):
            pairs = [tree.pairwise[v, y[u], y[v]] for v, u in enumerate(tree.parents) if u >= 0]
            return sum((tree.unary[v, label] for v, label in enumerate(y)), 0.0) + sum(pairs, 0.0)

        outputs = list(itertools.product(*(range(k) for k in counts)))
        p = probabilities(score, outputs, mu)
        if p is None:
            assert np.reshape(value, -1)[b] == -np.inf and np.all(flat[b] == -1)
            continue
        for s in range(size):
            check_draw(outputs, p, order, flat[b, s], numbers[b, s], L)


def ancestors(parents, v):
    while parents[v] >= 0:
        v = parents[v]
        yield v


@given(tables(), st.sampled_from([0.3, 1.0, 5.0]), NUMBERS)
def test_listed_outputs_are_drawn_by_their_distribution_function(backend, values, mu, uniform):
    space = backend.Table(values)
    value, drawn = space.ops.sample(space.scores, np.full((*values.shape[:-1], 2), uniform), mu)
    for row, chosen, z in zip(values.reshape(-1, values.shape[-1]), drawn.reshape(-1, 2), np.ravel(value), strict=True):
        p = probabilities(lambda y, row=row: row[y], range(len(row)), mu)
        assert chosen[0] == chosen[1]
        assert (z == -np.inf and chosen[0] == -1) if p is None else picks(p, uniform, chosen[0])


@pytest.mark.parametrize("mu", [0.4, 2.0])
def test_frequencies_are_marginals(backend, rng, mu):
    """Independent draws of a seed: within 5 standard deviations, pairs of neighbours too."""
    size = 4000
    space = backend.Chain(rng.normal(size=(5, 3)), rng.normal(size=(3, 3)))
    labels = space.sample(size, mu, rng=7)
    assert np.array_equal(labels, space.sample(size, mu, rng=np.random.default_rng(7)))
    marginals = space.marginals(mu)
    for t in range(5):
        seen = np.bincount(labels[:, t], minlength=3) / size
        assert np.all(np.abs(seen - marginals.unary[t]) <= 5 * np.sqrt(marginals.unary[t] / size) + 1e-12)
    pairs = np.array([np.sum((labels[:, :-1] == i) & (labels[:, 1:] == j)) for i in range(3) for j in range(3)]) / size
    assert np.all(np.abs(pairs - marginals.pairwise.ravel()) <= 20 * np.sqrt(marginals.pairwise.ravel() / size))


def test_a_batch_is_drawn_in_every_namespace(backend, space, rng):
    unary, pairwise = rng.normal(size=(2, 3, 2)).astype(space.dtype), rng.normal(size=(2, 2)).astype(space.dtype)
    batch = backend.Chain(space.put(unary), space.put(pairwise), [3, 2])
    labels = space.get(batch.sample(4, 0.5, rng=3))
    expected = reference.Chain(unary, pairwise, [3, 2]).sample(4, 0.5, rng=3)
    assert labels.dtype == np.int64 and np.array_equal(labels, expected) and np.all(labels[1, :, 2] == -1)
    tree = backend.Tree(space.put(unary), space.put(pairwise), [-1, 0, 0])
    assert np.array_equal(
        space.get(tree.sample(4, 0.5, rng=3)), reference.Tree(unary, pairwise, [-1, 0, 0]).sample(4, 0.5, rng=3)
    )


def test_panels_draw_the_same(other, rng):
    """A word as long as any, shared transitions and transitions of each pair: the same numbers, the same labels."""
    for shape in ((26, 26), (6, 19, 26, 26)):
        unary, pairwise = rng.normal(size=(6, 20, 26)), rng.normal(size=shape)
        ours, theirs = (
            b.Chain(unary, pairwise, [20, 0, 1, 7, 20, 19]).sample(9, 0.8, rng=1) for b in (reference, other)
        )
        assert np.array_equal(ours, theirs)


def test_scales(backend):
    """At 1e300 the best output is drawn; probabilities near 0 stay possible, forbidden ones do not."""
    huge = backend.Chain([[0.0, 1e300], [1e300, 0.0]], [[0.0, 0.0], [0.0, 0.0]]).sample(3, rng=0)
    assert np.array_equal(huge, [[1, 0]] * 3)
    tiny = backend.Chain([[0.0, -np.inf], [0.0, 0.0]], [[-np.inf, 1e-300], [0.0, 0.0]]).sample(3, 1e-3, rng=0)
    assert np.array_equal(tiny, [[0, 1]] * 3)


def test_what_cannot_be_drawn_is_said(backend):
    for space in (
        backend.Chain([[-np.inf, -np.inf]], [[0.0, 0.0], [0.0, 0.0]]),
        backend.Tree([[-np.inf]], [[0.0]], [-1]),
        backend.Table([-np.inf]),
    ):
        with pytest.raises(backend.InfeasibleError, match="sample: every output is forbidden"):
            space.sample(2, rng=0)
    graph = backend.Graph(np.zeros((2, 2)), np.zeros((0, 2, 2)), [])
    for arguments, error, message in (
        ((0,), ValueError, "size: expected an integer >= 1, got 0"),
        ((1, 0.0), ValueError, "mu"),
        ((1, 1.0, "a"), TypeError, "rng: expected an integer"),
    ):
        for space in (backend.Table([0.0, 1.0]), backend.Arborescence(np.zeros((2, 3))), graph):
            with pytest.raises(error, match=message):
                space.sample(*arguments)
    with pytest.raises(backend.UnsupportedError, match=r"Cut has no sample\(\)"):
        backend.Cut([[0.0, 1.0]], np.zeros((0, 2, 2)), np.zeros((0, 2), int)).sample(1)
