"""Trees where labellings can be counted by hand, over sizes and scales; and what is refused beyond the constructor."""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.specimens.structures import random_parents
from conformance.tolerances import close


def test_a_hundred_thousand_nodes_below_each_other(backend, rng):
    """No pairwise scores, so nodes are independent. Nothing recurs."""
    unary = rng.normal(scale=10.0, size=(100_000, 3))
    value, labels = backend.Tree(unary, np.zeros((3, 3)), np.arange(100_000) - 1).best()
    close(value, unary.max(axis=1).sum())
    assert np.array_equal(labels, unary.argmax(axis=1))


@pytest.mark.parametrize("shape", ["chain", "tree", "path", "star", "forest"])
def test_many_independent_nodes(backend, rng, shape):
    """Values that can be computed in closed form: no pairwise scores. The next best outputs change the one node where
    the second label costs least.
    """
    for p in (1500, 10_000):
        unary, own = rng.normal(scale=10.0, size=(p, 3)), np.zeros((3, 3))
        chain = shape == "chain"
        structure = backend.Chain(unary, own) if chain else backend.Tree(unary, own, random_parents(rng, p, shape))
        value, labels = structure.best()
        close(value, unary.max(axis=1).sum())
        assert np.array_equal(labels, unary.argmax(axis=1))
        value, marginals = structure.expectation()
        weights = np.exp(unary - unary.max(axis=1, keepdims=True))
        close(value, (np.log(weights.sum(axis=1)) + unary.max(axis=1)).sum())
        close(marginals.unary, weights / weights.sum(axis=1, keepdims=True))
        close(np.asarray(marginals.pairwise).sum(), p - (1.0 if chain else np.sum(structure.scores.parents < 0)))
        if p < 2000:
            best, ordered = structure.topk(3), np.sort(unary, axis=1)
            gaps = np.sort(ordered[:, 2] - ordered[:, 1])[:2]
            close(best.scores, ordered[:, 2].sum() - np.array([0.0, *gaps]))
            assert np.all(np.sum(np.asarray(best.labels) != labels, axis=1) == [0, 1, 1])


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


def test_count_is_exact_beyond_int64(backend):
    star = np.array([-1] + [0] * 99)
    assert backend.Tree(np.zeros((100, 26)), np.zeros((26, 26)), star).count() == 26**100
    assert backend.Tree(np.zeros((100, 3)), np.zeros((3, 3)), star, [3] + [2] * 99).count() == 3 * 2**99
    forbidden = np.array([[0.0, 0.0], [-np.inf, 0.0]])
    assert backend.Tree(np.zeros((100, 2)), forbidden, star).count() == 2**99 + 1


def test_what_is_refused_beside_the_arguments_of_the_constructor(backend):
    batch = backend.Tree(np.zeros((3, 2, 2)), np.zeros((2, 2)), [-1, 0])
    for question in (batch.count, lambda: list(batch.enumerate())):
        with pytest.raises(ValueError, match=r"expected a single tree, got a batch of shape \(3,\)"):
            question()
    unsound = backend.TreeScores(np.zeros((2, 2)), np.zeros((2, 2)), np.array([1, 0]))
    with pytest.raises(ValueError, match="parents: expected a forest, got a cycle"):
        backend.Tree.unchecked(unsound).best()


def test_scores_that_are_not_numbers_are_no_answer(other, rng):
    """nan among unchecked scores (weights that diverged) must come out again, and no index leave its array."""
    other.requires("checked kernels")
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
