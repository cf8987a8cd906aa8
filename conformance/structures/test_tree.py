"""Trees against enumeration (Pillutla et al., Algo. 7 and 9)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import brute, strategies
from conformance.laws import check_structure
from conformance.tolerances import close


def put(space, instance):
    """The instance's fields in a space; parents and counts stay on the host."""
    return space.put(instance.unary), space.put(instance.pairwise), instance.parents, instance.counts


def rounded(space, instance):
    """The instance as the space's dtype stores it, back in float64: what enumeration must be run on."""
    as_stored = [np.asarray(x, dtype=space.dtype).astype(np.float64) for x in (instance.unary, instance.pairwise)]
    return strategies.TreeInstance(*as_stored, instance.parents, instance.counts)


def labellings(tree):
    """All labellings of one tree and their scores."""
    p, L = tree.unary.shape
    outputs = list(itertools.product(*(range(n) for n in ([L] * p if tree.counts is None else tree.counts.tolist()))))
    below = np.flatnonzero(tree.parents >= 0)
    scores = [
        sum((tree.unary[v, y[v]] for v in range(p)), 0.0)
        + sum((tree.pairwise[v, y[tree.parents[v]], y[v]] for v in below), 0.0)
        for y in outputs
    ]
    return outputs, np.array(scores, dtype=np.float64)


def downward(parents):
    """The nodes, parents first."""
    depth = [0] * len(parents)
    for v in range(len(parents)):
        u = v
        while parents[u] >= 0:
            depth[v], u = depth[v] + 1, parents[u]
    return sorted(range(len(parents)), key=lambda v: (depth[v], v))


def feasible(instance):
    return all(labellings(tree)[1].max() > -np.inf for tree in instance.each())


@given(data=st.data())
def test_max_product_finds_a_best_labelling(backend, space, data):
    instance = data.draw(strategies.trees())
    tree = backend.Tree(*put(space, instance))
    if not feasible(instance):
        with pytest.raises(backend.InfeasibleError):
            tree.best()
        return
    value, labels = tree.best()
    scored = space.get(tree.score(labels))
    value, labels = space.get(value), space.get(labels)
    assert labels.dtype == np.int64 and labels.shape == instance.unary.shape[:-1] and value.dtype == space.dtype
    expected = [labellings(each)[1].max() for each in rounded(space, instance).each()]
    close(value.reshape(-1), expected, space.dtype)
    close(scored.reshape(-1), expected, space.dtype)
    most = instance.unary.shape[-1] if instance.counts is None else instance.counts
    assert np.all(labels >= 0) and np.all(labels < most)


@given(data=st.data())
def test_ties_go_to_the_smallest_label_from_the_roots(backend, data):
    """With integer scores sums are exact, so the tie rule can be checked by enumeration."""
    p, L = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    parents = data.draw(strategies.forests(p))
    draw = strategies.values(forbidden=False).filter(lambda x: abs(x) <= 2 and x == int(x))
    unary = np.array(data.draw(st.lists(draw, min_size=p * L, max_size=p * L))).reshape(p, L)
    pairwise = np.array(data.draw(st.lists(draw, min_size=L * L, max_size=L * L))).reshape(L, L)
    instance = strategies.TreeInstance(unary, np.broadcast_to(pairwise, (p, L, L)), parents, None)
    outputs, scores = labellings(instance)
    order = downward(parents)
    best = min(
        (y for y, s in zip(outputs, scores, strict=True) if s == scores.max()), key=lambda y: [y[v] for v in order]
    )
    assert tuple(np.asarray(backend.Tree(unary, pairwise, parents).best()[1])) == best


@given(data=st.data(), mu=st.sampled_from([0.1, 1.0, 7.0]))
def test_sum_product_is_the_sum_over_all_labellings(backend, space, data, mu):
    instance = data.draw(strategies.trees())
    tree = backend.Tree(*put(space, instance))
    if not feasible(instance):
        with pytest.raises(backend.InfeasibleError):
            tree.expectation(mu)
        return
    value, marginals = tree.expectation(mu)
    value, nodes, edges = (space.get(x) for x in (value, marginals.unary, marginals.pairwise))
    assert nodes.shape == instance.unary.shape and edges.shape == instance.pairwise.shape
    assert nodes.dtype == edges.dtype == np.dtype(space.dtype)
    assert marginals.parents is tree.scores.parents and marginals.counts is tree.scores.counts
    expected_nodes, expected_edges, values = [], [], []
    for each in rounded(space, instance).each():
        outputs, scores = labellings(each)
        v, probabilities = brute.log_sum_exp(scores, mu)
        n, e = np.zeros(each.unary.shape), np.zeros(each.pairwise.shape)
        for y, probability in zip(outputs, probabilities, strict=True):
            for node, label in enumerate(y):
                n[node, label] += probability
                if each.parents[node] >= 0:
                    e[node, y[each.parents[node]], label] += probability
        values.append(v)
        expected_nodes.append(n)
        expected_edges.append(e)
    scale = np.abs(instance.unary[np.isfinite(instance.unary)]).max(initial=1.0)
    close(value.reshape(-1), values, space.dtype, scale)
    if space.dtype == "float64" or scale / mu < 100:  # float32 rounds scores of 1e4/mu by more than a marginal's size
        close(nodes, np.reshape(expected_nodes, nodes.shape), space.dtype, scale / mu)
        if instance.pairwise.ndim > 2:
            close(edges, np.reshape(expected_edges, edges.shape), space.dtype, scale / mu)
        else:
            summed = np.sum(expected_edges, axis=(0, 1)) if nodes.size else np.zeros(edges.shape)
            close(edges, summed, space.dtype, 20 * scale / mu)


@given(data=st.data())
def test_a_score_is_an_inner_product_with_its_parts(backend, space, data):
    instance = data.draw(strategies.trees(forbidden=False))
    tree = backend.Tree(*put(space, instance))
    most = np.full(len(instance.parents), instance.unary.shape[-1]) if instance.counts is None else instance.counts
    labels = np.floor(np.random.default_rng(0).random(instance.unary.shape[:-1]) * most).astype(np.int64)
    parts = tree.parts(space.integers(labels))
    scores = space.get(tree.score(space.integers(labels))).reshape(-1)
    stored = rounded(space, instance)
    total = (space.get(parts.unary) * stored.unary).sum() + (space.get(parts.pairwise) * stored.pairwise).sum()
    rows = labels.reshape(len(stored.each()), len(instance.parents))
    for one, y, found in zip(stored.each(), rows, scores, strict=True):
        outputs, values = labellings(one)
        close(found, values[outputs.index(tuple(y.tolist()))], space.dtype, 1e4)
    close(total, scores.sum(), space.dtype, 1e5)


@given(data=st.data())
def test_expected_parts_are_weighed_parts(backend, space, data):
    instance = data.draw(strategies.trees(forbidden=False))
    tree = backend.Tree(*put(space, instance))
    *batch, p, L = instance.unary.shape
    rng = np.random.default_rng(1)
    most = np.full(p, L) if instance.counts is None else instance.counts
    outputs, weights = np.floor(rng.random((*batch, 3, p)) * most).astype(np.int64), rng.random((*batch, 3))
    outputs[..., 2, :] = -1  # no labelling
    found = tree.expected_parts(space.integers(outputs), space.put(weights))
    nodes, edges = np.zeros(instance.unary.shape), np.zeros(instance.pairwise.shape)
    for k in range(3):
        for b in np.ndindex(*batch):
            one = backend.Tree(
                instance.unary[b],
                instance.pairwise if instance.pairwise.ndim == 2 else instance.pairwise[b],
                *put(space, instance)[2:],
            )
            parts = one.parts(outputs[(*b, k)])
            nodes[b] += weights[(*b, k)] * parts.unary
            at = () if instance.pairwise.ndim == 2 else b
            edges[at] += weights[(*b, k)] * parts.pairwise
    close(space.get(found.unary), nodes, space.dtype)
    close(space.get(found.pairwise), edges, space.dtype)


@given(instance=strategies.trees(batched=False))
def test_every_answer_is_that_of_the_list_of_outputs(backend, instance):
    check_structure(backend.Tree(*instance))


@given(instance=strategies.trees(batched=False))
def test_count_and_enumerate_agree_with_enumeration(backend, instance):
    outputs, scores = labellings(instance.each()[0])
    allowed = [y for y, s in zip(outputs, scores, strict=True) if s > -np.inf]
    tree = backend.Tree(*instance)
    assert list(tree.enumerate()) == allowed
    assert tree.count() == len(allowed) and type(tree.count()) is int


def test_count_is_exact_beyond_int64(backend):
    star = np.array([-1] + [0] * 99)
    assert backend.Tree(np.zeros((100, 26)), np.zeros((26, 26)), star).count() == 26**100
    assert backend.Tree(np.zeros((100, 3)), np.zeros((3, 3)), star, [3] + [2] * 99).count() == 3 * 2**99
    forbidden = np.array([[0.0, 0.0], [-np.inf, 0.0]])
    assert backend.Tree(np.zeros((100, 2)), forbidden, star).count() == 2**99 + 1


@given(data=st.data())
def test_a_batch_is_its_trees(backend, space, data):
    instance = data.draw(strategies.trees(forbidden=False).filter(lambda t: t.unary.ndim == 3))
    value, labels = (space.get(x) for x in backend.Tree(*put(space, instance)).best())
    for i, one in enumerate(instance.each()):
        v, y = backend.Tree(*put(space, one)).best()
        close(value[i], space.get(v), space.dtype)
        assert np.array_equal(labels[i], space.get(y))
