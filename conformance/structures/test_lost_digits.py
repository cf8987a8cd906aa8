"""Sums of weights so far apart that some underflow as plain numbers, and yet count; integers that floats do not hold.

Against enumeration in logarithms (Pillutla et al., Algorithm 3; appendix C).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from conformance.specimens.outputs import listing
from conformance.tolerances import close

# Scores of one transition: weights, their squares and their cubes get lost beyond 400, 200 and 248.
DEPTHS = [100.0, 149.0, 150.0, 151.0, 187.0, 195.0, 201.0, 249.0, 300.0, 372.0, 389.0, 391.0, 399.0, 401.0, 760.0]


def agrees(backend, unary, pairwise):
    """A chain, and the path as a tree, both with shared and with own transitions, have the sums of all labellings."""
    n, L = unary.shape
    each = np.broadcast_to(pairwise, (n - 1, L, L))
    expected, means = listing("Chain", {"unary": unary, "pairwise": each}).expectation(1.0)
    nodes, edges = means.values()
    below = np.concatenate([np.zeros((1, L, L)), each])
    parents = np.arange(-1, n - 1)
    for structure in (
        backend.Chain(unary, pairwise),
        backend.Chain(unary, each.copy()),
        backend.Tree(unary, pairwise, parents),
        backend.Tree(unary, below, parents),
    ):
        value, marginals = structure.expectation()
        close(value, expected)
        close(marginals.unary, nodes)
        if np.ndim(marginals.pairwise) == 2:
            close(marginals.pairwise, edges.sum(axis=0))
        else:
            close(np.asarray(marginals.pairwise)[-(n - 1) :], edges)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("stay", [1, 3, 4])
def test_a_label_that_underflows_where_changing_twice_costs_as_much(backend, depth, stay):
    """Label 0 at the ends, and label 1 between for 2 depth; or label 0 throughout, for a little less or more."""
    for lost in (1.98 * depth, 2.0 * depth, 2.02 * depth, max(400.1, 2.0 * depth), 640.0 * stay):
        unary = np.zeros((stay + 2, 2))
        unary[1:-1, 0] = -lost / stay
        unary[[0, -1], 1] = -5000.0
        agrees(backend, unary, np.array([[0.0, -depth], [-depth, 0.0]]))


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_path_that_is_faint_where_another_is_about_to_end(backend, depth):
    """Label 0 stays; label 1 becomes 2, and loses three times the depth in one step; then 0 loses as much, or
    nearly."""
    for factor in (0.99, 1.0, 1.01):
        unary, pairwise = np.zeros((5, 3)), np.full((3, 3), -np.inf)
        unary[0, 1] = unary[1, 2] = -depth
        unary[0, 2] = -np.inf
        unary[2:, 0] = -depth * factor
        pairwise[0, 0] = pairwise[2, 2] = 0.0
        pairwise[1, 2] = -depth
        agrees(backend, unary, pairwise)


@pytest.mark.parametrize("depth", [50.0, 100.0, 149.0, 151.0, 300.0])
@pytest.mark.parametrize("children", [1, 2, 5, 8])
@pytest.mark.parametrize("turns", [False, True])
def test_children_that_disagree(backend, depth, children, turns):
    """As many pull a node to label 0 as to 1: by symmetry Z = 2 exp(-children depth), half for each label."""
    p = 2 * children + 1
    side = np.arange(1, p) % 2 == 0 if turns else np.arange(1, p) > children
    unary = np.zeros((p, 2))
    unary[1:][side, 0] = unary[1:][~side, 1] = -5000.0
    own = np.broadcast_to([[0.0, -depth], [-depth, 0.0]], (p, 2, 2))
    for pairwise in (own[0], own.copy()):
        value, marginals = backend.Tree(unary, pairwise, [-1] + [0] * (2 * children)).expectation()
        close(value, math.log(2.0) - children * depth)
        close(np.asarray(marginals.unary)[0], [0.5, 0.5])
        close(np.asarray(marginals.unary)[1:, 1], side)


ODD = 2**53 + 1


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_floats_do_not_hold_are_refused(backend, dtype):
    """Wherever integers become floats; those that are multiples of large enough powers of two stay."""
    zero, model = np.zeros((2, 2)), backend.SequenceModel(2, 2)
    data = model.pack([np.eye(2)], [[0, 1]])
    for name, ask in (
        ("values", backend.Table),
        ("values", backend.Matching),
        ("values", lambda x: backend.Arborescence(np.concatenate([x, x], 1)[:, :3])),
        ("unary", lambda x: backend.Chain(x, zero)),
        ("pairwise", lambda x: backend.Chain(zero, x)),
        ("unary", lambda x: backend.Tree(x, zero, [-1, 0])),
        ("unary", lambda x: backend.Graph(x, np.zeros((1, 2, 2)), [[0, 1]])),
        ("unary", lambda x: backend.Cut(x, np.zeros((1, 2, 2)), [[0, 1]])),
        ("cost", lambda x: backend.SequenceModel(2, 2, cost=x)),
        ("X", lambda x: backend.MulticlassModel(2, 2).pack(x, [0, 1])),
        ("w0", lambda x: backend.sgd(backend.LogLoss(model, data), np.resize(x, 12), lam=0.1, epochs=1)),
        ("x", backend.L1(0.1).prox),
        ("x", lambda x: backend.L1(0.1).prox(x.tolist())),
        ("x", lambda x: backend.L1(0.1).prox([*x[0].tolist(), 0.5])),
        ("tau", lambda x: backend.L1(x[0, 1])),
        ("tau", lambda x: backend.L1(int(x[0, 1]))),
    ):
        with pytest.raises(ValueError, match=rf"^{name}.*: expected numbers that float64 holds, got {ODD}: it becomes"):
            ask(np.array([[0, ODD], [1, 0]], dtype))
        ask(np.array([[0, 2**60], [1, 0]], dtype))
