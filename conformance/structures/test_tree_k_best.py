"""The k best labellings and the max-marginals of trees against enumeration (Pillutla et al., Algo. 8, corrected)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import strategies
from conformance.structures.test_tree import labellings, put, rounded
from conformance.structures.test_tree_scales import random_parents
from conformance.tolerances import close
from reference.structures import tree_k_best

KS = st.one_of(st.integers(1, 6), st.sampled_from([26, 27, 28, 81, 243, 250]))  # powers of 3 are numbers of outputs


@given(data=st.data(), k=KS)
def test_top_k_are_the_k_largest_scores(backend, space, data, k):
    """As a multiset: count, scores from high to low, distinct labellings that have these scores, -inf and -1 beyond."""
    instance = data.draw(strategies.trees())
    *batch, p, _ = instance.unary.shape
    best = backend.Tree(*put(space, instance)).topk(k)
    scores, labels, count = (space.get(x) for x in best)
    assert scores.shape == (*batch, k) and scores.dtype == np.dtype(space.dtype)
    assert labels.shape == (*batch, k, p) and labels.dtype == count.dtype == np.int64 and count.shape == tuple(batch)
    scores, labels, count = scores.reshape(-1, k), labels.reshape(count.size, k, p), count.reshape(-1)
    for i, one in enumerate(rounded(space, instance).each()):
        outputs, values = labellings(one)
        of = dict(zip(outputs, values, strict=True))
        expected = np.sort(values[values > -np.inf])[::-1][:k]
        c = len(expected)
        assert count[i] == c
        close(scores[i, :c], expected, space.dtype)
        assert np.all(np.diff(scores[i, :c]) <= 0)
        found = [tuple(y.tolist()) for y in labels[i, :c]]
        assert len(set(found)) == c
        close([of[y] for y in found], scores[i, :c], space.dtype)
        assert np.all(scores[i, c:] == -np.inf) and np.all(labels[i, c:] == -1)


@given(instance=strategies.trees(), k=st.integers(1, 9))
def test_the_first_is_the_best_and_more_come_behind(backend, instance, k):
    """The answer for k is the beginning of the answer for k + 1, bit for bit, and its first labelling is the best
    one.
    """
    tree = backend.Tree(*instance)
    few, more = tree.topk(k), tree.topk(k + 1)
    value, labels = tree.ops.max_product(tree.scores)
    assert np.array_equal(few.scores[..., 0], value) and np.array_equal(few.labels[..., 0, :], labels)
    assert np.array_equal(few.scores, more.scores[..., :k]) and np.array_equal(few.labels, more.labels[..., :k, :])
    assert np.array_equal(few.count, np.minimum(more.count, k))


@given(data=st.data(), k=KS)
def test_ties_go_to_the_smaller_label_of_the_root_then_to_the_first_children(backend, data, k):
    """A star of exact sums: by score, then the root's label, then the rank of what hangs on the first children,
    merged one by one.
    """
    leaves, L = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    entry = st.sampled_from([-1.0, 0.0, -0.0, 1.0, -np.inf])
    unary = np.array(data.draw(st.lists(entry, min_size=(leaves + 1) * L, max_size=(leaves + 1) * L))).reshape(-1, L)
    pairwise = np.array(data.draw(st.lists(entry, min_size=L * L, max_size=L * L))).reshape(L, L)

    def by_rank(listed):
        return sorted((x for x in listed if x[0] > -np.inf), key=lambda x: -x[0])  # stable

    everything = []
    for root in range(L):
        merged = [(unary[0, root], (root,))]
        for v in range(1, leaves + 1):
            own = by_rank([(unary[v, j] + pairwise[root, j], (j,)) for j in range(L)])
            merged = by_rank([(a + b, y + z) for (a, y), (b, z) in itertools.product(merged, own)])
        everything += merged
    expected = [y for _, y in by_rank(everything)][:k]
    found = backend.Tree(unary, pairwise, [-1] + [0] * leaves).topk(k)
    assert [tuple(y) for y in np.asarray(found.labels)[: int(found.count)].tolist()] == expected


@pytest.mark.parametrize("exponent", [-1000, -500, 0, 500, 1000])
def test_scales(backend, rng, exponent):
    """A power of two changes no rounding: the same labellings, scores scaled exactly (here up to 1e302)."""
    unary, pairwise, parents = rng.normal(size=(9, 5)), rng.normal(size=(5, 5)), random_parents(rng, 9, "forest")
    plain = backend.Tree(unary, pairwise, parents).topk(20)
    scaled = backend.Tree(np.ldexp(unary, exponent), np.ldexp(pairwise, exponent), parents).topk(20)
    assert np.array_equal(scaled.labels, plain.labels)
    assert np.array_equal(scaled.scores, np.ldexp(plain.scores, exponent))


@pytest.mark.parametrize("shape", ["tree", "path", "star", "forest"])
def test_many_nodes_without_pairwise_scores(backend, rng, shape):
    """Nodes are independent: the next best change the one node where the second label costs least."""
    unary = rng.normal(size=(1500, 3))
    best = backend.Tree(unary, np.zeros((3, 3)), random_parents(rng, 1500, shape)).topk(3)
    ordered = np.sort(unary, axis=1)
    gaps = np.sort(ordered[:, 2] - ordered[:, 1])[:2]
    close(best.scores, ordered[:, 2].sum() - np.array([0.0, *gaps]))
    assert np.all(np.sum(np.asarray(best.labels) != np.asarray(best.labels)[0], axis=1) == [0, 1, 1])


@given(data=st.data())
def test_max_marginals_are_the_best_scores_with_each_part(backend, space, data):
    instance = data.draw(strategies.trees())
    *batch, p, L = instance.unary.shape
    found = backend.Tree(*put(space, instance)).max_marginals()
    nodes, edges = space.get(found.unary), space.get(found.pairwise)
    assert nodes.shape == instance.unary.shape and edges.shape == (*batch, p, L, L)  # also for one shared matrix
    assert nodes.dtype == edges.dtype == np.dtype(space.dtype)
    best_nodes, best_edges = np.full(nodes.shape, -np.inf), np.full(edges.shape, -np.inf)
    trees = rounded(space, instance).each()
    a, b = best_nodes.reshape(len(trees), p, L), best_edges.reshape(len(trees), p, L, L)
    for i, one in enumerate(trees):
        for y, value in zip(*labellings(one), strict=True):
            for v, label in enumerate(y):
                a[i, v, label] = max(a[i, v, label], value)
                if (u := one.parents[v]) >= 0:
                    b[i, v, y[u], label] = max(b[i, v, y[u], label], value)
    close(nodes, best_nodes, space.dtype)
    close(edges, best_edges, space.dtype)


@pytest.mark.parametrize("scale", [1e-300, 1e-8, 1e8, 1e300])
def test_max_marginals_reach_the_best_score_everywhere(backend, rng, scale):
    parents = random_parents(rng, 9, "forest")
    tree = backend.Tree(scale * rng.normal(size=(4, 9, 5)), scale * rng.normal(size=(4, 9, 5, 5)), parents)
    found, value = tree.max_marginals(), np.asarray(tree.best()[0]) / scale
    close(np.asarray(found.unary).max(axis=-1) / scale, np.broadcast_to(value[:, None], (4, 9)))
    edges = np.asarray(found.pairwise)[:, parents >= 0].max(axis=(-2, -1)) / scale
    close(edges, np.broadcast_to(value[:, None], edges.shape))


@pytest.mark.parametrize("L", [1, 7, 8, 9, 26])
@pytest.mark.parametrize("forbidden", [0.0, 0.3])
@pytest.mark.parametrize("ties", [False, True])
def test_panels_give_the_same_bits_at_every_width(other, rng, L, forbidden, ties):
    """Beyond enumeration: the same sums in the same order, so the same ties. One workspace for all trees of a batch."""

    def draw(*shape):
        x = rng.integers(-2, 3, shape) / 4.0 if ties else rng.normal(size=shape)
        return np.where(rng.random(shape) < forbidden, -np.inf, x)

    for shape in ("tree", "path", "star", "forest"):
        parents, counts = random_parents(rng, 20, shape), rng.integers((L + 1) // 2, L + 1, 20)
        for pairwise in (draw(L, L), draw(3, 20, L, L)):
            scores = reference.TreeScores(draw(3, 20, L), pairwise, parents, counts)
            ours, theirs = reference.Tree(*scores), other.Tree(*scores)
            for k in (1, 2, 5, 30):
                for a, b in zip(ours.topk(k), theirs.topk(k), strict=True):
                    assert np.array_equal(b, a)
            for a, b in zip(ours.max_marginals()[:2], theirs.max_marginals()[:2], strict=True):
                assert np.array_equal(b, a)


# Algorithm 8 as printed, and what it costs ----------------------------------------------------------------------------


def as_printed(tree, K, leaves_store):
    """Algorithm 8 line by line for one tree (numbered from the root): the (k) best of every tuple of label and ranks
    of the children.
    """
    L = tree.unary.shape[1]
    children = [[c for c, u in enumerate(tree.parents) if u == v] for v in range(len(tree.parents))]
    m, delta, kappa, tuples = {}, {}, {}, 0
    for v in reversed(range(len(children))):
        for above in range(L) if v else [None]:
            listed = []
            for y in range(L):
                own = tree.unary[v, y] + (tree.pairwise[v, above, y] if v else 0.0)
                for ranks in itertools.product(range(K), repeat=len(children[v])):
                    tuples += 1
                    below = sum(m.get((c, y, l), -np.inf) for c, l in zip(children[v], ranks, strict=True))
                    listed.append((own + below, y, ranks))
            for k, (value, y, ranks) in enumerate(sorted(listed, key=lambda x: -x[0])[:K]):
                m[v, above, k] = value
                if children[v] or leaves_store:
                    delta[v, above, k], kappa[v, above, k] = y, dict(zip(children[v], ranks, strict=True))
    best = []
    for k in range(K):
        labels, rank = {0: delta[0, None, k]}, kappa[0, None, k]
        for v in range(1, len(children)):
            at = (v, labels[tree.parents[v]], rank[v])
            labels[v] = delta[at]
            rank |= kappa[at]
        best.append((m[0, None, k], tuple(labels[v] for v in range(len(children)))))
    return best, tuples


def test_the_printed_leaves_have_no_labels(backend, rng):
    """The branch of leaves assigns messages but no delta, which line 13 reads; once stored, the box is right."""
    unary, pairwise, parents = rng.normal(size=(5, 2)), rng.normal(size=(5, 2, 2)), np.array([-1, 0, 0, 1, 1])
    tree = strategies.TreeInstance(unary, pairwise, parents, None)
    with pytest.raises(KeyError):
        as_printed(tree, 4, leaves_store=False)
    expected, _ = as_printed(tree, 4, leaves_store=True)
    found = backend.Tree(unary, pairwise, parents).topk(4)
    close(found.scores, [value for value, _ in expected])
    assert [tuple(y) for y in np.asarray(found.labels).tolist()] == [y for _, y in expected]


def merged_candidates(monkeypatch, leaves, L, K):
    """How many pairs of ranks the reference compares at a root with so many leaves."""
    sizes = []
    merge = tree_k_best._merged

    def counted(place, a, b, k):
        best, merged = merge(place, a, b, k)
        sizes.append(L * len(merged.i))
        return best, merged

    monkeypatch.setattr(tree_k_best, "_merged", counted)
    reference.Tree(np.zeros((leaves + 1, L)), np.zeros((L, L)), [-1] + [0] * leaves).topk(K)
    monkeypatch.undo()
    return sum(sizes)


def test_66_as_printed_lists_every_tuple_of_ranks(monkeypatch):
    """L K^|C(v)| tuples: a third child costs K times two. Merged one at a time, a child costs at most L K
    (1 + log K), as Proposition 41 needs.
    """
    tuples = []
    for leaves in (1, 2, 3):
        tree = strategies.TreeInstance(
            np.zeros((leaves + 1, 3)), np.zeros((leaves + 1, 3, 3)), np.append(-1, np.zeros(leaves, int)), None
        )
        tuples.append(as_printed(tree, 4, leaves_store=True)[1])
        assert tuples[-1] >= 3 * 4**leaves
    assert tuples[2] > 3 * tuples[1] > 9 * tuples[0]
    K = 10
    counts = {leaves: merged_candidates(monkeypatch, leaves, 3, K) for leaves in (16, 32, 64)}
    assert all(count <= leaves * 3 * K * (1 + np.log(K)) for leaves, count in counts.items())
    assert counts[64] - counts[32] == 2 * (counts[32] - counts[16])  # each child costs the same
    assert counts[16] < 1e-13 * 3 * K**16


def test_the_search_of_the_kernels_grows_with_k_not_with_the_children(other, rng):
    """A star and a path of 2,000 nodes in less than room for 60 entries a labelling and node: p K L numbers, not p
    K^2.
    """
    from accelerated.compiled.structures.tree_k_best import tree_work

    for k in (5, 50, 500):
        room = sum(x.nbytes for x in tree_work(200, 10, k)) / 8
        assert room <= 200 * k * (16 * 2 + 45)
    for shape in ("star", "path"):
        tree = other.Tree(rng.normal(size=(2000, 10)), rng.normal(size=(10, 10)), random_parents(rng, 2000, shape))
        best = tree.topk(60)
        assert int(best.count) == 60 and len({tuple(y) for y in np.asarray(best.labels).tolist()}) == 60
        close([float(tree.score(y)) for y in np.asarray(best.labels)], best.scores)
