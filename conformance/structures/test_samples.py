"""Whole outputs drawn at random: every draw is held against the distribution function, by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance.namespaces import Space
from conformance.specimens.outputs import log_sum_exp
from conformance.specimens.scores import dependencies, members, stored
from conformance.specimens.structures import SMALL, STRUCTURES

NUMBERS = st.one_of(st.sampled_from([0.0, 0.5, 1.0 - 2**-53]), st.floats(0.0, 1.0, exclude_max=True))
MU = st.sampled_from([0.3, 1.0, 5.0])
roots = pytest.mark.parametrize("single_root", [False, True], ids=["roots", "one root"])
everywhere = pytest.mark.parametrize(
    "name", [name for name, (each, _) in SMALL.items() if "expectation" in each.promises]
)


class Given(np.random.Generator):
    """A generator of given numbers, as many as a draw asks for."""

    def __init__(self, numbers):
        super().__init__(np.random.PCG64(0))
        self.numbers = np.asarray(numbers)

    def random(self, shape):
        assert tuple(shape) == self.numbers.shape
        return self.numbers


def numbers(data, *shape, among=NUMBERS):
    cells = int(np.prod(shape))
    return np.array(data.draw(st.lists(among, min_size=cells, max_size=cells))).reshape(shape)


def is_drawn(outputs, weights, order, drawn, uniform, slack=1e-9):
    """Whether each variable in order is picked by its number, given those before it: by the inverse of the
    distribution function.
    """
    for v, number in zip(order, uniform, strict=True):
        states = np.array([y[v] for y in outputs])
        distribution = np.bincount(states, weights) / weights.sum()
        below, state = np.cumsum(distribution), drawn[v]
        if not (state < len(below) and distribution[state] > 0):
            return False
        if not below[state] - distribution[state] - slack <= number <= below[state] + slack:
            return False
        weights = weights * (states == state)
    return True


DRAWN = [each for each in STRUCTURES if "expectation" in each.promises and each.kind != "Arborescence"]


@pytest.mark.parametrize("specimen", DRAWN, ids=repr)
@given(data=st.data(), mu=MU)
def test_outputs_are_drawn_by_their_distribution_function(backend, specimen, data, mu):
    """Variable after variable, in an order that all draws share, whatever it is. Of a member of a batch without an
    output the value is -inf, and labels are -1, as beyond the end of a chain.
    """
    instance, size = data.draw(specimen.draw()), 3
    structure, each = specimen.make(backend, instance), members(instance)
    listings = [specimen.enumerate(one) for one in each]
    batch = instance[0].shape[: -1 if specimen.kind == "Table" else -2]
    variables = instance[0].shape[len(batch) : -1]
    uniform = numbers(data, *batch, size, *variables)
    if all(scores.max(initial=-np.inf) > -np.inf for _, scores, _ in listings):
        drawn = structure.sample(size, mu, Given(uniform))
    elif specimen.kind == "Graph":
        return
    else:
        value, drawn = structure.ops.sample(structure.scores, uniform, mu)
        assert [total == -np.inf for total in np.ravel(value)] == [x.scores.max() == -np.inf for x in listings]
    assert drawn.dtype == np.int64 and drawn.shape == (*batch, size, *variables)
    rows = (len(each), size, variables[0] if variables else 1)
    for (outputs, scores, _), ys, us in zip(listings, drawn.reshape(rows), uniform.reshape(rows), strict=True):
        if scores.max() == -np.inf:
            assert np.all(ys == -1)
            continue
        outputs = [np.atleast_1d(y) for y in outputs]
        length, (_, weights) = len(outputs[0]), log_sum_exp(scores, mu)
        assert np.all(ys[:, length:] == -1)
        orders = map(list, itertools.permutations(range(length)))
        assert any(all(is_drawn(outputs, weights, o, y, u[o]) for y, u in zip(ys, us, strict=True)) for o in orders)


@roots
@given(data=st.data(), scores=dependencies(scales=(1.0, 30.0, 0.3, 0.01, 1e-4)), mu=MU)
def test_dependency_trees_are_drawn_by_their_distribution_function(backend, single_root, data, scores, mu):
    """The single root first, by the first number; then branch by branch, each from its first token without a head to
    where it meets what is there, each head by its token's number."""
    specimen, n = SMALL["Arborescence, one root" if single_root else "Arborescence"][0], len(scores.values)
    outputs, values, _ = specimen.enumerate(scores).possible()
    if not outputs:
        return
    draws = numbers(data, 3, n + 1)
    drawn = backend.Arborescence(scores.values, single_root).sample(3, mu, Given(draws))
    _, weights = log_sum_exp(values, mu)
    assert drawn.shape == (3, n) and drawn.dtype == np.int64
    outputs = [(y.index(0) if single_root and n else 0, *y) for y in outputs]  # the root, then the heads
    for y, uniform in zip(drawn.tolist(), draws, strict=True):
        root = [y.index(0)] if single_root and n else []
        order = [0, *(1 + m for m in root)]
        for m in range(1, n + 1):
            while m > 0 and m not in order:
                order.append(m)
                m = y[m - 1]
        order = [m for m in order if m - 1 not in root]
        assert is_drawn(outputs, weights, order, (root[0] if root else 0, *y), uniform[order])


@roots
@pytest.mark.parametrize("scale", [1e3, 1e150, 1e300])
def test_far_apart_scores(backend, single_root, scale):
    """Three equal best trees and worse ones: each of the three a third of the time, no other, at any scale."""
    values = np.full((4, 5), -scale)
    # token 1: the root, or token 2 or 3, which cannot be without the root's arc to one of them
    values[0, [0, 2, 3]] = values[1, [1, 3]] = values[2, [1, 2]] = 0.0
    values[3, :4] = [-np.inf, -np.inf, -np.inf, 0.0]
    drawn = backend.Arborescence(values, single_root).sample(3000, 1.0, rng=0)
    trees, seen = np.unique(drawn, axis=0, return_counts=True)
    assert sorted(map(tuple, trees.tolist())) == [(0, 1, 1, 3), (0, 1, 2, 3), (0, 3, 1, 3)]
    assert np.all(np.abs(seen - 1000) <= 5 * np.sqrt(1000))
    unary, pairwise = scale * np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros((1, 2, 2))
    for labels in (backend.Graph(unary, pairwise, [[0, 1]]), backend.Chain(unary, pairwise)):
        assert np.array_equal(labels.sample(20, 1.0, rng=0), [[1, 0]] * 20)


@roots
def test_sparse_trees_of_many_tokens(backend, single_root):
    """A path: the only tree, which a walk would hardly ever find; one arc more, and its odds."""
    n = 25
    values = np.full((n, n + 1), -np.inf)
    values[np.arange(n), np.arange(n)] = -500.0  # each token's head is the one before it
    values[np.arange(n - 1), np.arange(2, n + 1)] = 500.0  # or, far likelier for a walk, the one after it
    space = backend.Arborescence(values, single_root)
    assert np.array_equal(space.sample(4, 1.0, rng=0), [list(range(n))] * 4)
    values[n - 1, 0] = -500.0 - 1000.0 * (n - 1) + np.log(3.0)  # all by the ones after them: 3 to 1
    heads = backend.Arborescence(values, True).sample(400, 1.0, rng=0)
    upward = np.all(heads == np.append(np.arange(2, n + 1), 0), axis=1)
    assert np.all(upward | np.all(heads == np.arange(n), axis=1))
    assert abs(upward.mean() - 0.75) <= 5 * np.sqrt(0.75 * 0.25 / 400)


@everywhere
def test_draws_are_the_same_in_every_namespace(backend, space, rng, name):
    specimen, make = SMALL[name]
    scores = stored(space, make(lambda shape: rng.normal(size=shape)))
    drawn = space.get(specimen.make(backend, scores, space).sample(6, 0.5, np.random.default_rng(3)))
    stay = Space("numpy", space.dtype, np.asarray)
    assert drawn.dtype == np.int64
    assert np.array_equal(drawn, specimen.make(reference, scores, stay).sample(6, 0.5, rng=3))
