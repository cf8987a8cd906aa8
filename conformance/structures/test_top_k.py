"""The k best labellings of chains and trees against enumeration (Pillutla et al., Algo. 2 and 8, corrected)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
import reference
from accelerated.compiled.structures.chain_k_best import k_best, k_best_workspace
from accelerated.compiled.structures.chain_top_k import weights_of
from accelerated.compiled.structures.tree_k_best import tree_work
from accelerated.compiled.sweeps import load, padded
from accelerated.problems import problem_of
from conformance.objectives.test_smoothing import projection
from conformance.specimens.outputs import listing
from conformance.specimens.scores import chains, members, random_parents
from conformance.tolerances import close

KS = st.one_of(st.integers(1, 6), st.sampled_from([26, 27, 28, 80, 81, 82, 90, 250]))  # 3**n are numbers of outputs
TIES = st.sampled_from([-1.0, 0.0, -0.0, 1.0, -np.inf])  # sums are exact, so that the whole order can be enumerated


# the search of the kernels, which stops as soon as the rest is certified to have weight 0 -----------------------------


def searched(unary, pairwise, k, mu, work):
    """The answer of the kernel for a chain (its count, whether it is certified, scores, labels), in a workspace."""
    n, L = unary.shape
    matrix, scores = np.empty((padded(L), padded(L))), np.empty((n, padded(L)))
    values, labels, edges = np.full(k, -7.0), np.full((k, n), -7), pairwise.reshape(-1, L, L)
    edges = edges if len(edges) else np.zeros((1, L, L))
    load(unary, 1.0, scores)
    load(edges[0], 1.0, matrix)
    count, certified = k_best(scores, n, edges, 0, int(pairwise.ndim > 2), matrix, mu, values, labels, work)
    assert np.all(values[count:] == -7) and np.all(labels[count:] == -7)  # nothing beyond
    assert np.all(work.node == -1)  # as it was
    return count, certified, values[:count], labels[:count]


@given(instance=chains(), k=st.integers(1, 90), mu=st.sampled_from([1e-3, 0.5, 3.0, 100.0]))
def test_the_search_stops_when_the_rest_has_no_weight(instance, k, mu):
    """Against the projection of the scores of all labellings; one workspace for all chains of a batch."""
    work, each = k_best_workspace(*instance.unary.shape[-2:], k), members(instance)
    for unary, pairwise, *_ in [*each, *each[::-1]]:
        psi = listing("Chain", {"unary": unary, "pairwise": pairwise}).scores
        psi = np.sort(psi[psi > -np.inf])[::-1]
        count, certified, values, _ = searched(unary, pairwise, k, mu, work)
        scale = np.abs(psi).max(initial=1.0)
        close(values, psi[:count])
        assert certified or count == min(k, len(psi))
        if count:
            assert np.sum(psi[: count - 1] - psi[count - 1]) <= mu + 1e-9 * scale  # one labelling less would not do
        if certified and count:
            u, found = projection(psi / mu), np.zeros(len(psi))
            positive = weights_of(values, count, mu, found)
            assert np.all(found[:positive] > 0)
            found[positive:] = 0.0
            np.testing.assert_allclose(found, u, atol=1e-12 * scale / mu)


def test_too_many_outputs_for_the_kernel_take_the_loop(rng):
    """The kernel holds all outputs that it is asked for; where that would be gigabytes, the smoothing's loop runs."""
    model = accelerated.SequenceModel(3, 4)
    data = model.pack([rng.normal(size=(30, 3))], [rng.integers(0, 4, 30)])
    w = rng.normal(size=model.size)
    few, many = (
        accelerated.StructuralHinge(model, data, smoothing=accelerated.smoothings.SquaredL2(k)) for k in (64, 10**9)
    )
    assert problem_of(few, 0.1) is not None and problem_of(many, 0.1) is None
    close(many.linearize(w, mu=0.1).gradient, few.linearize(w, mu=0.1).gradient)


@pytest.mark.parametrize("L", [2, 3, 7, 8, 16])
def test_where_the_value_is_no_number_the_gradient_is_none(backend, L):
    """Finite weights and features whose products overflow; example 1 is in order, and does not hide the other."""
    model = backend.SequenceModel(1, L, start_stop=False)
    data = model.pack([np.array([[1e200], [-1e200], [1e200]]), np.ones((2, 1))], [[0, 0, 0], [0, 1]])
    for column in range(min(L, 3)):
        w = np.zeros(model.size)
        w[column] = 1e200
        for smoothing in (backend.smoothings.TopK(1), backend.smoothings.TopK(3), backend.smoothings.SquaredL2(4)):
            objective = backend.StructuralHinge(model, data, smoothing=smoothing)
            for batch in ([0], [1], None):
                with np.errstate(over="ignore", invalid="ignore"):
                    value, gradient = objective.value_and_gradient(w, batch, mu=1.0)
                assert not np.isnan(value) or np.any(np.isnan(gradient))
                assert not np.isnan(value) if batch == [1] else not np.isfinite(value)
            assert np.isnan(objective.value_and_gradient(np.where(w > 0, np.nan, w), mu=1.0)[0])


@pytest.mark.parametrize("L", [1, 7, 8, 16])
@pytest.mark.parametrize("strange", [np.nan, np.inf])
@pytest.mark.parametrize("shared", [True, False])
def test_the_search_stays_in_bounds_and_says_nan(rng, L, strange, shared):
    """Wherever one score is nan, so is the best; at inf it is inf or nan. Labels are labels."""
    for trial in range(30):
        n, k, mu = int(rng.integers(2, 6)), int(rng.integers(1, 9)), float(rng.choice([0.0, 0.5, 50.0]))
        unary, pairwise = rng.normal(size=(n, L)), rng.normal(size=(L, L) if shared else (n - 1, L, L))
        table = (unary, pairwise)[trial % 2]
        table.reshape(-1)[rng.integers(table.size)] = strange
        table[rng.random(table.shape) < 0.1 * (trial % 3)] = strange
        count, certified, values, labels = searched(unary, pairwise, k, mu, k_best_workspace(n, L, k))
        assert count >= 1 and np.all((labels >= 0) & (labels < L))
        if np.isnan(strange):
            assert np.isnan(values[0]) and count == 1 and not certified
        else:
            assert values[0] == np.inf or np.isnan(values[0])


# trees: Algorithm 8, as corrected and as printed, and what it costs ---------------------------------------------------


@given(data=st.data(), k=KS)
def test_ties_go_to_the_smaller_label_of_the_root_then_to_the_first_children(backend, data, k):
    """A star of exact sums: by score, then the root's label, then the rank of what hangs on the first children,
    merged one by one.
    """
    leaves, L = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    drawn = np.array(data.draw(st.lists(TIES, min_size=(leaves + 1 + L) * L, max_size=(leaves + 1 + L) * L)))
    unary, pairwise = drawn.reshape(-1, L)[: leaves + 1], drawn.reshape(-1, L)[leaves + 1 :]

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
    tree = reference.TreeScores(unary, pairwise, parents, None)
    with pytest.raises(KeyError):
        as_printed(tree, 4, leaves_store=False)
    expected, _ = as_printed(tree, 4, leaves_store=True)
    found = backend.Tree(unary, pairwise, parents).topk(4)
    close(found.scores, [value for value, _ in expected])
    assert [tuple(y) for y in np.asarray(found.labels).tolist()] == [y for _, y in expected]


def test_66_as_printed_lists_every_tuple_of_ranks():
    """L K^|C(v)| tuples: a third child costs K times two. Merged one at a time, as Proposition 41 needs, each child
    costs the same: `test_each_child_of_a_node_costs_the_same`.
    """
    tuples = []
    for leaves in (1, 2, 3):
        tree = reference.TreeScores(
            np.zeros((leaves + 1, 3)), np.zeros((leaves + 1, 3, 3)), np.append(-1, np.zeros(leaves, int)), None
        )
        tuples.append(as_printed(tree, 4, leaves_store=True)[1])
        assert tuples[-1] >= 3 * 4**leaves
    assert tuples[2] > 3 * tuples[1] > 9 * tuples[0]


def test_the_search_of_the_kernels_grows_with_k_not_with_the_children(other, rng):
    """A star and a path of 2,000 nodes in less than room for 60 entries a labelling and node: p K L numbers, not p
    K^2.
    """
    for k in (5, 50, 500):
        room = sum(x.nbytes for x in tree_work(200, 10, k)) / 8
        assert room <= 200 * k * (16 * 2 + 45)
    for shape in ("star", "path"):
        tree = other.Tree(rng.normal(size=(2000, 10)), rng.normal(size=(10, 10)), random_parents(rng, 2000, shape))
        best = tree.topk(60)
        assert int(best.count) == 60 and len({tuple(y) for y in np.asarray(best.labels).tolist()}) == 60
        close([float(tree.score(y)) for y in np.asarray(best.labels)], best.scores)
