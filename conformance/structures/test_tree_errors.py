"""What trees refuse, by name; constraints; scores that are not numbers."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.structures.test_tree_scales import random_parents
from conformance.tolerances import close


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
        ((np.zeros((3, 2)), np.zeros((2, 2)), [-1, 2, 1]), r"parents: .* cycle: node 1 has no root above it"),
        ((np.zeros((2, 2)), np.zeros((2, 2)), [0, -1]), r"parents: .* cycle: node 0"),
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
    with pytest.raises(ValueError, match="parents: expected a forest, got a cycle"):
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
