"""Trees: numbers of labellings, and what is refused of batches and of scores that no constructor has seen."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.specimens.structures import random_parents


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
