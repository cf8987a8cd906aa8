"""Trees against chains, where labellings can be counted by hand, and over sizes and scales; both panels at every
width.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.tolerances import close


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


@pytest.mark.parametrize("weight", [0.0, 1.0, 60.0, 140.0, 160.0, 1000.0])
@pytest.mark.parametrize("children", [1, 4, 40])
def test_many_children_that_agree(backend, weight, children):
    """A star of two labels whose leaves cost ``weight`` each where they differ from the root, and are for label 1: all
    by hand.

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
    """Label 0 loses 640 nats at four nodes of a path, changing label 760: in probabilities the best labelling is
    lost from both sides.
    """
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


def test_linear_messages_overflow_and_vanish(backend):
    """Algorithm 9 as printed multiplies exp(psi): at 800 it is inf, at -800 it says that nothing is possible."""
    for unary, expected in (([800.0, 0.0], 800.0), ([-800.0, -801.0], -800.0 + math.log1p(math.exp(-1.0)))):
        with np.errstate(over="ignore", divide="ignore"):
            as_printed = np.log(np.sum(np.exp(np.array(unary))))
        assert not np.isfinite(as_printed)
        close(backend.Tree([unary], np.zeros((2, 2)), [-1]).log_partition(), expected)


def test_remark_44_divides_zero_by_zero(backend):
    """Where a parent's label forbids all of its child's, the message is 0 and so is the marginal: 0/0, but the
    answer is 0.
    """
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
