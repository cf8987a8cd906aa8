"""The k best labellings and the max-marginals of trees against enumeration (Pillutla et al., Algo. 8, corrected)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.specimens.structures import random_parents
from conformance.tolerances import close
from reference.structures import tree_k_best

KS = st.one_of(st.integers(1, 6), st.sampled_from([26, 27, 28, 81, 243, 250]))  # powers of 3 are numbers of outputs


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
    tree = reference.TreeScores(unary, pairwise, parents, None)
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
        tree = reference.TreeScores(
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
