"""Trees against enumeration (Pillutla et al., Algo. 7 and 9), against chains, and where labellings can be counted by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
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


def random_parents(rng, p, shape):
    """Parents of a random tree, a path or a star, nodes in random order; a forest of a random tree's pieces."""
    parents, order = np.full(p, -1), rng.permutation(p)
    for i in range(1, p):
        above = {"tree": rng.integers(i), "forest": rng.integers(i), "path": i - 1, "star": 0}[shape]
        if shape != "forest" or rng.random() < 0.8:
            parents[order[i]] = order[above]
    return parents


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


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_a_chain_is_a_tree(backend, rng, shared, forbidden):
    """Rooted at its last position, where ties are broken alike: the same sums in the same order, equal bits."""
    for n, L in [(1, 3), (2, 1), (9, 4), (20, 8)]:
        for unary, pairwise in (
            (rng.normal(size=(5, n, L)), rng.normal(size=(L, L) if shared else (5, n - 1, L, L))),
            (rng.integers(-1, 2, (5, n, L)) + 0.0, rng.integers(-1, 2, (L, L) if shared else (5, n - 1, L, L)) + 0.0),
        ):
            pairwise = np.where(rng.random(pairwise.shape) < forbidden, -np.inf, pairwise)
            turned = np.swapaxes(pairwise, -1, -2)
            if not shared:
                turned = np.concatenate([turned, np.full((5, 1, L, L), 7.0)], axis=1)  # the root's own, ignored
            chain = backend.Chain(unary, pairwise)
            tree = backend.Tree(unary, turned, [*range(1, n), -1])
            for a, b in zip(chain.ops.viterbi(chain.scores), tree.ops.max_product(tree.scores), strict=True):
                assert np.array_equal(a, b)
            for k in (1, 3, 10):
                for a, b in zip(chain.topk(k), tree.topk(k), strict=True):
                    assert np.array_equal(a, b)
            ours, theirs = tree.max_marginals(), chain.max_marginals()
            close(ours.unary, theirs.unary)
            close(ours.pairwise[:, :-1], np.swapaxes(theirs.pairwise, -1, -2))
            assert np.all(ours.pairwise[:, -1] == -np.inf)
            (v, m), (w, g) = tree.ops.sum_product(tree.scores, 0.5), chain.ops.forward_backward(chain.scores, 0.5)
            close(v, w)
            close(m.unary, g.unary)
            close(m.pairwise if shared else m.pairwise[:, :-1], np.swapaxes(g.pairwise, -1, -2), scale=100.0)


def test_a_hundred_thousand_nodes_below_each_other(backend, rng):
    """No pairwise scores, so nodes are independent. Nothing recurs."""
    unary = rng.normal(scale=10.0, size=(100_000, 3))
    value, labels = backend.Tree(unary, np.zeros((3, 3)), np.arange(100_000) - 1).best()
    close(value, unary.max(axis=1).sum())
    assert np.array_equal(labels, unary.argmax(axis=1))


@pytest.mark.parametrize("shape", ["down", "up", "star"])
def test_many_independent_nodes(backend, rng, shape):
    """Values that can be computed in closed form: no pairwise scores."""
    p = 10_000
    parents = {
        "down": np.arange(p) - 1,
        "up": np.append(np.arange(1, p), -1),
        "star": np.append(-1, np.zeros(p - 1, int)),
    }
    unary = rng.normal(scale=10.0, size=(p, 3))
    tree = backend.Tree(unary, np.zeros((3, 3)), parents[shape])
    value, labels = tree.best()
    close(value, unary.max(axis=1).sum())
    assert np.array_equal(labels, unary.argmax(axis=1))
    value, marginals = tree.expectation()
    weights = np.exp(unary - unary.max(axis=1, keepdims=True))
    close(value, (np.log(weights.sum(axis=1)) + unary.max(axis=1)).sum())
    close(marginals.unary, weights / weights.sum(axis=1, keepdims=True))
    close(np.asarray(marginals.pairwise).sum(), p - 1.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e4, 1e100])
def test_scales(backend, rng, scale):
    """log_partition at temperature mu = scale is scale times the log-partition of the unscaled scores."""
    unary, pairwise, parents = rng.normal(size=(7, 4)), rng.normal(size=(4, 4)), random_parents(rng, 7, "tree")
    plain, big = backend.Tree(unary, pairwise, parents), backend.Tree(unary * scale, pairwise * scale, parents)
    close(big.log_partition(scale) / scale, plain.log_partition())
    close(big.marginals(scale).unary, plain.marginals().unary)
    assert np.array_equal(big.best()[1], plain.best()[1])


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e15, 1e300])
@pytest.mark.parametrize("shape", ["tree", "path", "star", "forest"])
def test_marginals_sum_to_one_at_any_scale(backend, rng, shape, scale):
    """Great scores have lost their fractions, but probabilities are still probabilities, and consistent ones."""
    parents = random_parents(rng, 30, shape)
    marginals = backend.Tree(
        scale * rng.normal(size=(4, 30, 5)), scale * rng.normal(size=(4, 30, 5, 5)), parents
    ).marginals()
    nodes, edges = np.asarray(marginals.unary), np.asarray(marginals.pairwise)
    close(nodes.sum(axis=-1), np.ones((4, 30)))
    below = parents >= 0
    close(edges[:, below].sum(axis=-1), nodes[:, parents[below]])
    close(edges[:, below].sum(axis=-2), nodes[:, below])
    assert not edges[:, ~below].any()


@pytest.mark.parametrize("weight", [0.0, 1.0, 60.0, 140.0, 160.0, 1000.0])
@pytest.mark.parametrize("children", [1, 4, 40])
def test_many_children_that_agree(backend, weight, children):
    """A star of two labels whose leaves cost ``weight`` each where they differ from the root, and are for label 1: all by hand.

    Products of messages underflow; scores of the root outweigh them or not.
    """
    for own in (0.0, weight * children, 2.0 * weight * children, -700.0):
        unary = np.zeros((children + 1, 2))
        unary[0, 0], unary[1:, 0] = own, -weight / 2
        tree = backend.Tree(unary, [[0.0, -weight], [-weight, 0.0]], np.append(-1, np.zeros(children, int)))
        leaf = [np.logaddexp(-weight / 2, -weight), np.logaddexp(-1.5 * weight, 0.0)]
        sides = np.array([own + children * leaf[0], children * leaf[1]])
        value, marginals = tree.expectation()
        close(value, np.logaddexp(*sides))
        close(marginals.unary[0], np.exp(sides - np.logaddexp(*sides)), scale=max(1.0, np.abs(sides).max()))


def test_labels_that_lose_on_the_way_up_and_win_above(backend):
    """Label 0 loses 640 nats at four nodes of a path, changing label 760: in probabilities the best labelling is lost from both sides."""
    unary, pairwise = np.zeros((6, 2)), np.array([[0.0, -760.0], [-760.0, 0.0]])
    unary[1:5, 0] = -640.0
    unary[[0, 5], 1] = -np.inf
    value, marginals = backend.Tree(unary, pairwise, np.arange(6) - 1).expectation()
    close(value, -1520.0)
    close(marginals.unary[1:5, 1], np.ones(4))
    close(marginals.pairwise, [[0.0, 1.0], [1.0, 3.0]])


def test_counts_cut_labels_off(backend, rng):
    """What scores say of labels that do not exist changes nothing, be it the highest."""
    unary, pairwise, parents, counts = (
        rng.normal(size=(5, 3)),
        rng.normal(size=(5, 3, 3)),
        [1, -1, 1, 2, 2],
        [2, 3, 1, 2, 3],
    )
    missing = np.arange(3) >= np.array(counts)[:, None]
    loud, quiet = np.where(missing, 1e9, unary), np.where(missing, -np.inf, unary)
    for a, b in ((loud, quiet), (np.where(missing, -np.inf, unary), unary)):
        one, other_ = backend.Tree(a, pairwise, parents, counts), backend.Tree(b, pairwise, parents, counts)
        assert one.best()[0] == other_.best()[0] and np.array_equal(one.topk(40).labels, other_.topk(40).labels)
        close(one.log_partition(), other_.log_partition())
        assert not np.asarray(one.marginals().unary)[missing].any()
        assert one.count() == other_.count() == 2 * 3 * 1 * 2 * 3
    assert np.all(np.asarray(backend.Tree(loud, pairwise, parents, counts).max_marginals().unary)[missing] == -np.inf)


@given(data=st.data())
def test_a_batch_is_its_trees(backend, space, data):
    instance = data.draw(strategies.trees(forbidden=False).filter(lambda t: t.unary.ndim == 3))
    value, labels = (space.get(x) for x in backend.Tree(*put(space, instance)).best())
    for i, one in enumerate(instance.each()):
        v, y = backend.Tree(*put(space, one)).best()
        close(value[i], space.get(v), space.dtype)
        assert np.array_equal(labels[i], space.get(y))


@pytest.mark.parametrize("L", [1, 7, 8, 9, 26])
@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
def test_panels_agree_at_every_width(other, rng, L, scale, forbidden):
    """Beyond enumeration: padded widths, underflow at large scales, forbidden parts, several ranges of trees."""

    def draw(*shape):
        return np.where(rng.random(shape) < forbidden, -np.inf, scale * rng.normal(size=shape))

    for shape in ("tree", "path", "star", "forest"):
        parents, counts = random_parents(rng, 40, shape), rng.integers((L + 1) // 2, L + 1, 40)
        for pairwise in (draw(L, L), draw(20, 40, L, L)):
            scores = reference.TreeScores(draw(20, 40, L), pairwise, parents, counts)
            ours, theirs = reference.Tree(*scores).ops, other.Tree(*scores).ops
            (value, labels), (v, y) = ours.max_product(scores), theirs.max_product(scores)
            assert np.array_equal(v, value) and np.array_equal(y, labels)  # the same sums in the same order: equal bits
            (value, marginals), (v, m) = ours.sum_product(scores), theirs.sum_product(scores)
            close(v, value)
            close(m.unary, marginals.unary, scale=max(1.0, 1e-3 * scale))
            close(m.pairwise, marginals.pairwise, scale=max(1.0, 1e-3 * scale) * 20)


def test_linear_messages_overflow_and_vanish(backend):
    """Algorithm 9 as printed multiplies exp(psi): at 800 it is inf, at -800 it says that nothing is possible."""
    for unary, expected in (([800.0, 0.0], 800.0), ([-800.0, -801.0], -800.0 + math.log1p(math.exp(-1.0)))):
        with np.errstate(over="ignore", divide="ignore"):
            as_printed = np.log(np.sum(np.exp(np.array(unary))))
        assert not np.isfinite(as_printed)
        close(backend.Tree([unary], np.zeros((2, 2)), [-1]).log_partition(), expected)


def test_remark_44_divides_zero_by_zero(backend):
    """Where a parent's label forbids all of its child's, the message is 0 and so is the marginal: 0/0, but the answer is 0."""
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (np.zeros((2, 4)), np.zeros((4, 3)), [-1, 0]),
            r"pairwise: expected shape \(4, 4\) or \(2, 4, 4\), got \(4, 3\)",
        ),
        ((np.zeros(3), np.zeros((3, 3)), [-1]), r"unary: expected shape \(..., p, L\)"),
        ((np.zeros((2, 0)), np.zeros((0, 0)), [-1, 0]), r"unary: expected .* L >= 1"),
        ((np.array([[0.0, np.nan]]), np.zeros((2, 2)), [-1]), r"unary: .* got nan at index \(0, 1\)"),
        ((np.zeros((1, 2)), np.array([[0.0, np.inf], [0.0, 0.0]]), [-1]), r"pairwise: .* got inf at index \(0, 1\)"),
        (
            (np.zeros((3, 2)), np.zeros((2, 2)), [-1, 0]),
            r"parents: expected shape \(3,\), one for each node, got \(2,\)",
        ),
        ((np.zeros((3, 2)), np.zeros((2, 2)), [-1, 0, 3]), r"parents: expected -1..2, got -1..3"),
        ((np.zeros((3, 2)), np.zeros((2, 2)), [-1, 2, 1]), r"parents: .* circle: node 1 has no root above it"),
        ((np.zeros((2, 2)), np.zeros((2, 2)), [0, -1]), r"parents: .* circle: node 0"),
        ((np.zeros((2, 2)), np.zeros((2, 2)), [-1, 0], [0, 2]), r"counts: expected 1..2, got 0..2"),
        ((np.zeros((2, 2)), np.zeros((2, 2)), [-1, 0], [1]), r"counts: expected shape \(2,\)"),
    ],
)
def test_bad_input_names_the_argument(backend, arguments, message):
    with pytest.raises(ValueError, match=message):
        backend.Tree(*arguments)


def test_wrong_types_are_refused(backend):
    with pytest.raises(TypeError, match="parents: expected integers, got float64"):
        backend.Tree(np.zeros((1, 2)), np.zeros((2, 2)), [-1.0])
    tree = backend.Tree(np.zeros((2, 2)), np.zeros((2, 2)), [-1, 0])
    with pytest.raises(ValueError, match="mu: expected a finite number > 0"):
        tree.expectation(0.0)
    with pytest.raises(ValueError, match=r"y: expected labels of shape \(2,\), got \(3,\)"):
        tree.score([0, 0, 0])
    batch = backend.Tree(np.zeros((3, 2, 2)), np.zeros((2, 2)), [-1, 0])
    for question in (batch.count, lambda: list(batch.enumerate())):
        with pytest.raises(ValueError, match=r"expected a single tree, got a batch of shape \(3,\)"):
            question()
    unsound = backend.TreeScores(np.zeros((2, 2)), np.zeros((2, 2)), np.array([1, 0]))
    with pytest.raises(ValueError, match="parents: expected a forest, got a circle"):
        backend.Tree.unchecked(unsound).best()


def test_labels_that_nodes_do_not_have_are_refused(backend, rng):
    tree = backend.Tree(rng.normal(size=(2, 3, 3)), rng.normal(size=(3, 3)), [-1, 0, 0], [3, 2, 3])
    nobody = np.array([[-1, -1, -1], [0, 1, 2]])
    assert tree.score(nobody)[0] == 0.0 and not np.asarray(tree.parts(nobody).unary)[0].any()
    for y, message in (
        ([[0, 0, 0], [0, 2, 0]], r"y: expected labels in 0..1 at node 1, got 2 at \(1, 1\)"),
        ([[0, 0, -1], [0, 1, 0]], r"y: expected labels in 0..2 at node 2, got -1 at \(0, 2\)"),
    ):
        for question in (tree.score, tree.parts):
            with pytest.raises(ValueError, match=message):
                question(y)


def test_constraints_limit_the_states_of_nodes(backend, rng):
    tree = backend.Tree(rng.normal(size=(5, 3)), rng.normal(size=(3, 3)), [-1, 0, 0, 1, -1])
    allowed = rng.random((5, 3)) < 0.6
    allowed[:, 0] = True
    limited = tree.constrained(allowed)
    expected = max(float(tree.score(y)) for y in tree.enumerate() if all(allowed[v, j] for v, j in enumerate(y)))
    close(limited.best()[0], expected)
    assert np.all((np.asarray(limited.node_max_marginals()) > -np.inf) == allowed)


def test_scores_that_are_not_numbers_are_no_answer(other, rng):
    """nan among unchecked scores (weights that diverged) must come out again, and no index leave its array."""
    for strange in (np.nan, np.inf):
        for shared in (True, False):
            unary, pairwise = rng.normal(size=(9, 3)), rng.normal(size=(3, 3) if shared else (9, 3, 3))
            parents = random_parents(rng, 9, "tree")
            for table in (unary, pairwise):
                before, at = table.copy(), rng.integers(table.size)
                table.reshape(-1)[at] = strange
                tree = other.Tree.unchecked(other.TreeScores(unary, pairwise, parents))
                assert np.isnan(tree.best()[0]) and np.isnan(tree.expectation()[0])
                found = tree.topk(4)
                assert np.isnan(found.scores[0]) and np.all(np.asarray(found.labels) == -1)
                table[...] = before
