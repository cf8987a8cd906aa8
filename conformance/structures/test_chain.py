"""Chains against enumeration (Pillutla et al., Algo. 1 and 3), in every namespace."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import brute, strategies
from conformance.tolerances import close


def put(space, instance):
    """The instance's fields in a space; the drawn numbers as that space's dtype sees them."""
    lengths = None if instance.lengths is None else space.integers(instance.lengths)
    return space.put(instance.unary), space.put(instance.pairwise), lengths


def rounded(space, instance):
    """The instance as the space's dtype stores it, back in float64: what enumeration must be run on."""
    as_stored = [np.asarray(x, dtype=space.dtype).astype(np.float64) for x in (instance.unary, instance.pairwise)]
    return strategies.ChainInstance(*as_stored, instance.lengths)


def feasible(instance):
    return all(brute.labellings(*chain)[1].max() > -np.inf for chain in instance.each())


@given(data=st.data())
def test_viterbi_finds_a_best_labelling(backend, space, data):
    instance = data.draw(strategies.chains())
    chain = backend.Chain(*put(space, instance))
    if not feasible(instance):
        with pytest.raises(backend.InfeasibleError):
            chain.best()
        return
    value, labels = chain.best()
    scored = space.get(chain.score(labels))
    value, labels = space.get(value), space.get(labels)
    assert labels.dtype == np.int64 and labels.shape == instance.unary.shape[:-1]
    expected = [brute.labellings(*c)[1].max() for c in rounded(space, instance).each()]
    close(value.reshape(-1), expected, space.dtype)
    close(scored.reshape(-1), expected, space.dtype)
    for (unary, _), row in zip(instance.each(), labels.reshape(value.size, labels.shape[-1]), strict=True):
        assert np.all(row[: len(unary)] >= 0) and np.all(row[len(unary) :] == -1)


@given(data=st.data())
def test_viterbi_ties_go_to_the_smallest_label_from_the_end(backend, data):
    """With integer scores sums are exact, so the tie rule can be checked by enumeration."""
    n, L = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    integers = st.integers(-1, 1).map(float)
    unary = np.array(data.draw(st.lists(integers, min_size=n * L, max_size=n * L))).reshape(n, L)
    pairwise = np.array(data.draw(st.lists(integers, min_size=L * L, max_size=L * L))).reshape(L, L)
    outputs, scores = brute.labellings(unary, np.broadcast_to(pairwise, (n - 1, L, L)))
    best = min((y[::-1] for y, s in zip(outputs, scores, strict=True) if s == scores.max()))[::-1]
    assert tuple(np.asarray(backend.Chain(unary, pairwise).best()[1])) == best


@given(data=st.data(), mu=st.sampled_from([0.1, 1.0, 7.0]))
def test_forward_backward_is_the_sum_over_all_labellings(backend, space, data, mu):
    instance = data.draw(strategies.chains())
    chain = backend.Chain(*put(space, instance))
    if not feasible(instance):
        with pytest.raises(backend.InfeasibleError):
            chain.expectation(mu)
        return
    value, marginals = chain.expectation(mu)
    value, nodes, edges = (space.get(x) for x in (value, marginals.unary, marginals.pairwise))
    assert nodes.shape == instance.unary.shape and edges.shape == instance.pairwise.shape
    assert nodes.dtype == edges.dtype == np.dtype(space.dtype)
    L = nodes.shape[-1]
    flat_nodes = nodes.reshape(value.size, nodes.shape[-2], L)
    each_edge = edges.reshape(value.size, max(nodes.shape[-2] - 1, 0), L, L) if edges.ndim > 2 else None
    summed = np.zeros((L, L))
    scale = np.abs(instance.unary[np.isfinite(instance.unary)]).max(initial=1.0)
    for i, (unary, pairwise) in enumerate(rounded(space, instance).each()):
        v, n, e = brute.chain_marginals(unary, pairwise, mu)
        close(value.reshape(-1)[i], v, space.dtype, scale)
        if (
            space.dtype == "float64" or scale / mu < 100
        ):  # float32 rounds scores of 1e4/mu by more than a marginal's size
            close(flat_nodes[i, : len(unary)], n, space.dtype, scale / mu)
            if instance.pairwise.ndim > 2:
                close(each_edge[i, : len(e)], e, space.dtype, scale / mu)
        assert not flat_nodes[i, len(unary) :].any()
        if instance.pairwise.ndim > 2:
            assert not each_edge[i, len(e) :].any()
        summed += e.sum(axis=0)
    if instance.pairwise.ndim == 2 and (space.dtype == "float64" or scale / mu < 100):
        close(edges, summed, space.dtype, len(flat_nodes) * scale / mu)


@given(data=st.data())
def test_a_score_is_an_inner_product_with_its_parts(backend, space, data):
    instance = data.draw(strategies.chains(forbidden=False, batched=False))
    chain = backend.Chain(*put(space, instance))
    labels = data.draw(
        st.lists(
            st.integers(0, instance.unary.shape[-1] - 1), min_size=len(instance.unary), max_size=len(instance.unary)
        )
    )
    parts = chain.parts(space.integers(np.array(labels, np.int64)))
    unary, pairwise = rounded(space, instance).each()[0]
    total = (space.get(parts.unary) * instance.unary).sum()
    edges = space.get(parts.pairwise)
    total += (edges * instance.pairwise).sum()
    outputs, scores = brute.labellings(unary, pairwise)
    expected = scores[outputs.index(tuple(labels))]
    close(space.get(chain.score(space.integers(np.array(labels, np.int64)))), expected, space.dtype)
    close(total, expected, space.dtype, 1e4)


@given(data=st.data())
def test_labels_past_the_end_or_outside_have_no_parts(backend, data):
    instance = data.draw(strategies.chains(forbidden=False))
    chain = backend.Chain(*instance)
    nowhere = np.full(instance.unary.shape[:-1], -1)
    assert not np.asarray(chain.parts(nowhere).unary).any()
    assert not np.asarray(chain.parts(nowhere).pairwise).any()
    assert np.all(np.asarray(chain.score(nowhere)) == 0)


@given(instance=strategies.chains(batched=False))
def test_count_and_enumerate_agree_with_enumeration(backend, instance):
    outputs, scores = brute.labellings(*instance.each()[0])
    allowed = [y for y, s in zip(outputs, scores, strict=True) if s > -np.inf]
    chain = backend.Chain(*instance)
    assert list(chain.enumerate()) == allowed
    assert chain.count() == len(allowed) and type(chain.count()) is int


def test_count_is_exact_beyond_int64(backend):
    assert backend.Chain(np.zeros((100, 26)), np.zeros((26, 26))).count() == 26**100
    cycle = np.full((3, 3), -np.inf)
    cycle[[0, 1, 2], [1, 2, 0]] = 0.0
    assert backend.Chain(np.zeros((1000, 3)), cycle).count() == 3


def test_twenty_thousand_positions(backend, rng):
    """Values that can be computed in closed form: no transition scores, so positions are independent."""
    unary = rng.normal(scale=10.0, size=(20_000, 3))
    chain = backend.Chain(unary, np.zeros((3, 3)))
    value, labels = chain.best()
    close(value, unary.max(axis=1).sum())
    assert np.array_equal(labels, unary.argmax(axis=1))
    value, marginals = chain.expectation()
    weights = np.exp(unary - unary.max(axis=1, keepdims=True))
    close(value, (np.log(weights.sum(axis=1)) + unary.max(axis=1)).sum())
    close(marginals.unary, weights / weights.sum(axis=1, keepdims=True))
    close(np.asarray(marginals.pairwise).sum(), 19_999)


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e4, 1e100])
def test_scales(backend, rng, scale):
    """log_partition at temperature mu = scale is scale times the log-partition of the unscaled scores."""
    unary, pairwise = rng.normal(size=(6, 4)), rng.normal(size=(4, 4))
    plain, big = backend.Chain(unary, pairwise), backend.Chain(unary * scale, pairwise * scale)
    close(big.log_partition(scale) / scale, plain.log_partition())
    close(big.marginals(scale).unary, plain.marginals().unary)
    assert np.array_equal(big.best()[1], plain.best()[1])


@pytest.mark.parametrize("scale", [1e8, 1e15, 1e101, 1e300])
def test_marginals_sum_to_one_at_any_scale(backend, rng, scale):
    """Such scores have lost their fractions, but probabilities are still probabilities, and consistent ones."""
    chain = backend.Chain(scale * rng.normal(size=(4, 9, 5)), scale * rng.normal(size=(4, 8, 5, 5)))
    marginals = chain.marginals()
    close(np.asarray(marginals.unary).sum(axis=-1), np.ones((4, 9)))
    close(np.asarray(marginals.pairwise).sum(axis=-1), np.asarray(marginals.unary)[:, :-1])
    close(np.asarray(marginals.pairwise).sum(axis=-2), np.asarray(marginals.unary)[:, 1:])


def test_scores_of_ten_thousand_leave_one_labelling(backend, rng):
    """At such scores probability 1 goes to the best labelling: the log-partition is its score, the marginals its
    parts.
    """
    unary, pairwise = 1e4 * rng.normal(size=(50, 12, 5)), 1e4 * rng.normal(size=(5, 5))
    chain = backend.Chain(unary, pairwise)
    value, labels = chain.best()
    log_partition, marginals = chain.expectation()
    close(log_partition, value)
    close(marginals.unary, chain.parts(labels).unary)
    close(marginals.pairwise, chain.parts(labels).pairwise)


def test_forbidden_transitions_in_a_left_to_right_chain(backend):
    """Only 0..01..1 is allowed: n + 1 labellings, all of score 0."""
    n = 300
    chain = backend.Chain(np.zeros((n, 2)), [[0.0, 0.0], [-np.inf, 0.0]])
    close(chain.log_partition(), math.log(n + 1))
    expected = np.arange(n, 0, -1) / (n + 1)
    close(np.asarray(chain.marginals().unary)[:, 0], expected)


def test_a_path_that_messages_from_both_sides_lose(backend):
    """Label 0 loses 640 nats at each of four positions, changing to label 1 and back loses 760 twice: the best
    labellings change.

    In scaled probabilities exp(-760) is 0 on the way out and on the way back, with no tiny normaliser to show it.
    """
    unary, pairwise = np.zeros((6, 2)), np.array([[0.0, -760.0], [-760.0, 0.0]])
    unary[1:5, 0] = -640.0
    unary[[0, 5], 1] = -np.inf
    value, marginals = backend.Chain(unary, pairwise).expectation()
    expected, nodes, edges = brute.chain_marginals(unary, np.broadcast_to(pairwise, (5, 2, 2)), 1.0)
    assert expected == -1520.0
    close(value, expected)
    close(marginals.unary, nodes)
    close(marginals.pairwise, edges.sum(axis=0))


@given(data=st.data())
def test_a_batch_is_its_chains(backend, space, data):
    instance = data.draw(strategies.chains(forbidden=False).filter(lambda c: c.unary.ndim == 3))
    chain = backend.Chain(*put(space, instance))
    value, labels = (space.get(x) for x in chain.best())
    for i, (unary, pairwise) in enumerate(instance.each()):
        one = backend.Chain(space.put(unary), space.put(pairwise))
        v, y = one.best()
        close(value[i], space.get(v), space.dtype)
        assert np.array_equal(labels[i, : len(unary)], space.get(y))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (np.zeros((2, 26)), np.zeros((26, 25))),
            r"pairwise: expected shape \(26, 26\) or \(1, 26, 26\), got \(26, 25\)",
        ),
        ((np.zeros(3), np.zeros((3, 3))), r"unary: expected shape \(..., n, L\)"),
        ((np.zeros((2, 0)), np.zeros((0, 0))), r"unary: expected .* L >= 1"),
        ((np.array([[0.0, np.nan]]), np.zeros((2, 2))), r"unary: .* got nan at index \(0, 1\)"),
        ((np.zeros((1, 2)), np.array([[0.0, np.inf], [0.0, 0.0]])), r"pairwise: .* got inf at index \(0, 1\)"),
        ((np.zeros((3, 4, 2)), np.zeros((2, 2)), [1, 2]), r"lengths: expected shape \(3,\), got \(2,\)"),
        ((np.zeros((2, 4, 2)), np.zeros((2, 2)), [1, 5]), r"lengths: expected 0..4, got 1..5"),
        (([[0.0], [1.0, 2.0]], np.zeros((1, 1))), r"unary: expected a rectangular array"),
    ],
)
def test_bad_input_names_the_argument(backend, arguments, message):
    with pytest.raises(ValueError, match=message):
        backend.Chain(*arguments)


def test_wrong_types_are_refused(backend):
    with pytest.raises(TypeError, match="unary: .*float16"):
        backend.Chain(np.zeros((2, 2), np.float16), np.zeros((2, 2)))
    with pytest.raises(TypeError, match="pairwise: .*complex128"):
        backend.Chain(np.zeros((2, 2)), np.zeros((2, 2), complex))
    with pytest.raises(TypeError, match="lengths: expected integers, got float64"):
        backend.Chain(np.zeros((1, 2, 2)), np.zeros((2, 2)), [1.5])
    for mu in (0.0, -1.0, np.inf, np.nan, 1e-309):
        with pytest.raises(ValueError, match="mu: expected a finite number > 0"):
            backend.Chain(np.zeros((2, 2)), np.zeros((2, 2))).expectation(mu)
    with pytest.raises(ValueError, match="loss.unary: expected the shape of the scores"):
        chain = backend.Chain(np.zeros((2, 2)), np.zeros((2, 2)))
        chain.augment(chain.scores._replace(unary=np.zeros((7, 2, 2))))
    with pytest.raises(ValueError, match=r"y: expected labels of shape \(2,\), got \(3,\)"):
        backend.Chain(np.zeros((2, 2)), np.zeros((2, 2))).score([0, 0, 0])


def test_integers_become_float64(backend):
    value, _ = backend.Chain(np.array([[1, 2]]), np.zeros((2, 2), np.int32)).best()
    assert np.asarray(value).dtype == np.float64
