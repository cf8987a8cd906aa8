"""The laws of structures, each once: over every structure, backend and namespace, against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from conformance import laws
from conformance.namespaces import Space
from conformance.specimens.outputs import listed, log_sum_exp
from conformance.specimens.pages import check_refusals, entries
from conformance.specimens.scores import dependencies, members, stored
from conformance.specimens.structures import SMALL, STRUCTURES
from conformance.structures.test_search import Runs
from conformance.tolerances import close
from reference.arrays import host
from reference.structures.scores import mapped, score_fields

KS = st.one_of(st.integers(1, 6), st.sampled_from([24, 26, 27, 28, 81, 125, 243, 250]))  # numbers of outputs among them
everywhere = pytest.mark.parametrize("specimen", STRUCTURES, ids=repr)
batched = pytest.mark.parametrize("specimen", [s for s in STRUCTURES if "batches" in s.promises], ids=repr)
summed = pytest.mark.parametrize("specimen", [s for s in STRUCTURES if "expectation" in s.promises], ids=repr)


def single(data, specimen, backend, space):
    """A structure in a space, and its outputs that are not forbidden."""
    huge = {"huge": False} if specimen.kind == "Cut" and space.dtype == "float32" else {}
    instance = stored(space, data.draw(specimen.draw(batched=False, **huge)))
    return specimen.make(backend, instance, space), specimen.enumerate(instance).possible()


@everywhere
@given(data=st.data())
def test_outputs_scores_and_parts_are_those_of_the_enumeration(backend, space, specimen, data):
    structure, outputs = single(data, specimen, backend, space)
    assert list(structure.enumerate()) == outputs.outputs
    laws.check_scores(structure, outputs)


@everywhere
@given(data=st.data())
def test_the_best_output_is_the_best_of_all(backend, space, specimen, data):
    structure, outputs = single(data, specimen, backend, space)
    if outputs.outputs:
        laws.check_best(structure, outputs)
        y = space.get(structure.best()[1])
        assert y.dtype == np.int64 and listed(y) in outputs.outputs
    else:
        for oracle in ("best", "expectation", "sample"):
            if structure.supports(oracle) and oracle not in structure.intractable:
                with pytest.raises(backend.InfeasibleError, match="every output is forbidden"):
                    getattr(structure, oracle)(*[1] * (oracle == "sample"))
        for name, mu in zip(specimen.functions, ([], [1.0]), strict=False):
            value, answer = getattr(structure.ops, name)(structure.scores, *mu, *specimen.options.values())
            value, filler = space.get(value), 0 if mu else -1
            assert value == -np.inf and value.shape == () and value.dtype == space.dtype
            assert all(np.all(space.get(x) == filler) for x in score_fields(answer))


@everywhere
@given(data=st.data(), k=KS)
def test_the_k_best_outputs_have_the_k_largest_scores(backend, space, specimen, data, k):
    """And the answer for k is the beginning of the answer for k + 1: bit for bit, or up to rounding where the next best
    output is found by max-marginals, which round (:mod:`reference.structures.bmmf`).
    """
    structure, outputs = single(data, specimen, backend, space)
    laws.check_top_k(structure, outputs, k)
    few, more = structure.topk(np.int64(k)), structure.topk(k + 1)
    if specimen.kind in ("Cut", "Graph", "Matching"):
        close(space.get(few.scores), space.get(more.scores)[:k], space.dtype)
        return
    for a, b in ((few.scores, more.scores), (few.labels, more.labels)):
        assert np.array_equal(space.get(a), space.get(b)[:k])


@everywhere
@given(data=st.data())
def test_max_marginals_are_the_best_scores_with_each_part(backend, space, specimen, data):
    structure, outputs = single(data, specimen, backend, space)
    if structure.supports("max_marginals"):
        laws.check_max_marginals(structure, outputs)


@summed
@given(data=st.data(), mu=st.sampled_from([0.1, 1.0, 7.0]))
def test_the_expectation_is_the_sum_over_all_outputs(backend, space, specimen, data, mu):
    structure, outputs = single(data, specimen, backend, space)
    if outputs.outputs:
        laws.check_expectation(structure, outputs, mu)


@everywhere
@given(data=st.data())
def test_a_structure_obeys_the_laws_of_its_own_outputs(backend, specimen, data):
    laws.check_structure(specimen.make(backend, data.draw(specimen.draw(batched=False))))


def answers(structure, k, weights):
    """Name, what fills the place beyond the end of a chain, the fields: of all oracles of a structure with outputs."""
    best = structure.topk(k)
    yield from (("topk", -np.inf, [best.scores]), ("topk labels", -1, [best.labels]), ("topk count", 0, [best.count]))
    if structure.supports("max_marginals"):
        yield "max_marginals", -np.inf, score_fields(structure.max_marginals())
    yield "expected_parts", 0, score_fields(structure.expected_parts(best.labels, weights))
    if not np.any(host(best.count) == 0):
        value, y = structure.best()
        yield from (("best", 0, [value, structure.score(y)]), ("labels", -1, [y]))
        yield "parts", 0, score_fields(structure.parts(y))
        if "expectation" not in structure.intractable:
            sums, marginals = structure.expectation(0.7)
            yield from (("log-partition", 0, [sums]), ("marginals", 0, score_fields(marginals)))


@batched
@given(data=st.data(), k=st.integers(1, 9))
def test_a_batch_is_its_members(backend, space, specimen, data, k):
    """Every answer; pairwise scores that all share have the sum of the members' marginals and parts."""
    instance = stored(space, data.draw(specimen.draw()))
    structure = specimen.make(backend, instance, space)
    batch = instance[0].shape[: instance[0].ndim - len(structure.axes)]
    weights = np.arange(1.0, k + 1)
    alone = [
        {name: [space.get(x) for x in fields] for name, _, fields in answers(one, k, space.put(weights))}
        for one in (specimen.make(backend, each, space) for each in members(instance))
    ]
    found = list(answers(structure, k, space.put(np.broadcast_to(weights, (*batch, k)))))
    assert ("best" in [name for name, *_ in found]) == all("best" in each for each in alone)
    for name, filler, fields in found:
        for i, field in enumerate(fields):
            whole, each = space.get(field), [answer[name][i] for answer in alone]
            if name in ("marginals", "expected_parts", "parts") and whole.ndim == 2 == instance[i].ndim and i == 1:
                close(whole, sum(each), space.dtype, 100.0)
                continue
            assert whole.shape[: len(batch)] == batch
            for found_one, one in zip(whole.reshape(len(each), *whole.shape[len(batch) :]), each, strict=True):
                there = tuple(map(slice, one.shape))
                close(found_one[there], one, space.dtype, 1e2)
                assert one.dtype == whole.dtype
                rest = np.array(found_one)
                rest[there] = filler
                assert np.all(rest == filler), name


@pytest.mark.parametrize("specimen", [each for each in STRUCTURES if each.first is not None], ids=repr)
@given(data=st.data(), levels=st.integers(1, 3), k=KS)
def test_ties_go_to_the_first_in_the_order_of_the_structure(backend, specimen, data, levels, k):
    """Sums of integers are exact, so that ties are ties; among the k best too where a structure promises it."""
    if specimen.kind == "Cut":
        instance = data.draw(specimen.draw(integer=True))
    else:
        drawn = data.draw(specimen.draw(batched=False))
        instance = mapped(lambda x: np.clip(np.rint(x), -levels, levels), drawn)
    outputs = specimen.enumerate(instance).possible()
    if outputs.outputs:
        structure = specimen.make(backend, instance)
        order = sorted((-s, specimen.first(instance, y), y) for y, s in zip(*outputs[:2], strict=True))
        expected = [np.asarray(y).tolist() for *_, y in order]
        assert np.asarray(structure.best()[1]).tolist() == expected[0]
        if "ranked" in specimen.promises:
            found = structure.topk(k)
            assert np.asarray(found.labels)[: int(found.count)].tolist() == expected[:k]


NOWHERE = [specimen for specimen in STRUCTURES if specimen.kind != "Table"]


@pytest.mark.parametrize("specimen", NOWHERE, ids=repr)
@given(data=st.data())
def test_labels_that_say_there_is_no_output_have_no_parts(backend, specimen, data):
    """They are -1, as oracles give them where every output is forbidden."""
    structure = specimen.make(backend, data.draw(specimen.draw(forbidden=False)))
    best = structure.topk(1)
    nowhere = np.full(best.labels.shape[: best.scores.ndim - 1] + best.labels.shape[best.scores.ndim :], -1)
    assert not any(np.any(np.asarray(field)) for field in score_fields(structure.parts(nowhere)))
    if specimen.kind not in ("Cut", "Boxes"):
        assert np.all(np.asarray(structure.score(nowhere)) == 0)


def test_what_is_wrong_is_named(backend):
    model = backend.SequenceModel(2, 2)
    names = {"b": backend, "np": np, "z": np.zeros, "PATH": [[0, 1], [1, 2]], "runs": Runs([1.0])}
    names |= {"NAN": np.full((1, 2), np.nan), "INF": np.full((1, 2, 2), np.inf)}
    names["LOSS"] = backend.BoxScores(np.zeros((4, 4)), np.array(1.0), np.array([1, 0, 3, 2]))
    names["log"] = backend.LogLoss(model, model.pack([np.eye(2)], [[0, 1]]))
    names["hinge"], many = backend.StructuralHinge(model, names["log"].data), backend.MulticlassModel(2**12, 2)
    names["many"] = backend.StructuralHinge(many, many.pack([[0], [1]], [0, 1]))
    for dtype in (np.int64, np.uint64):
        odd, fit = np.array([[0, 2**53 + 1], [1, 0]], dtype), np.array([[0, 2**60], [1, 0]], dtype)
        check_refusals("wrong_structures.txt", {**names, "odd": odd})
        for entry, _ in entries("wrong_structures.txt"):
            if "odd" in entry:  # multiples of large enough powers of two are floats
                eval(entry, {**names, "odd": fit})


@pytest.mark.parametrize("name", SMALL)
def test_wrong_numbers_are_named(backend, name):
    """Of outputs and draws, and the temperature; what has an expectation can be drawn."""
    specimen, make = SMALL[name]
    structure = specimen.make(backend, make(np.zeros))
    for k in (0, -1, True, 2.0, "2", None):
        error = ValueError if isinstance(k, int) else TypeError
        with pytest.raises(error, match=f"k: expected an integer >= 1, got {k!r}"):
            structure.topk(k)
    if "expectation" not in specimen.promises:
        with pytest.raises(backend.UnsupportedError, match=rf"{specimen.kind} does not implement sample\(\)"):
            structure.sample(1)
        return
    for mu in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="mu: expected"):
            structure.expectation(mu)
    for arguments, error, message in (
        ((0,), ValueError, "size: expected an integer >= 1, got 0"),
        ((1, 0.0), ValueError, "mu"),
        ((1, 1.0, "a"), TypeError, "rng: expected an integer"),
    ):
        with pytest.raises(error, match=message):
            structure.sample(*arguments)


# whole outputs drawn at random: every draw against the distribution function ------------------------------------------

NUMBERS = st.one_of(st.sampled_from([0.0, 0.5, 1.0 - 2**-53]), st.floats(0.0, 1.0, exclude_max=True))
MU = st.sampled_from([0.3, 1.0, 5.0])
roots = pytest.mark.parametrize("single_root", [False, True], ids=["roots", "one root"])
sampled = pytest.mark.parametrize("name", [name for name, (each, _) in SMALL.items() if "expectation" in each.promises])


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


def picked(kind, y):
    """An output as its numbers pick it: of segments the label and the length of what ends at each token, or 0."""
    if kind != "Segments":
        return np.atleast_1d(y)
    ends = np.zeros((len(y), 2), int)
    for s, w, label in y:
        if s >= 0:
            ends[s + w] = label + 1, w + 1
    return ends.reshape(-1)


DRAWN = [each for each in STRUCTURES if "expectation" in each.promises and each.draw is not dependencies]


@pytest.mark.parametrize("specimen", DRAWN, ids=repr)
@given(data=st.data(), mu=MU)
def test_outputs_are_drawn_by_their_distribution_function(backend, specimen, data, mu):
    """Variable after variable, in an order that all draws share, whatever it is; of segments from the last token
    backwards. Of a member of a batch without an output the value is -inf, and labels are -1, as beyond the end.
    """
    instance, size, rows = data.draw(specimen.draw()), 3, [3] * (specimen.kind == "Segments")
    structure, each = specimen.make(backend, instance), members(instance)
    listings = [specimen.enumerate(one) for one in each]
    batch = instance[0].shape[: -len(structure.axes)]
    variables = instance[0].shape[len(batch) : -1][: 1 if rows else None]
    uniform = numbers(data, *batch, size, *variables, *[2] * len(rows))
    if all(scores.max(initial=-np.inf) > -np.inf for _, scores, _ in listings):
        drawn = structure.sample(size, mu, Given(uniform))
    elif rows or specimen.kind == "Graph":
        return
    else:
        value, drawn = structure.ops.sample(structure.scores, uniform, mu)
        assert [total == -np.inf for total in np.ravel(value)] == [x.scores.max() == -np.inf for x in listings]
    assert drawn.dtype == np.int64 and drawn.shape == (*batch, size, *variables, *rows)
    drawn = drawn.reshape(len(each), size, *variables, *rows)
    uniform = uniform.reshape(len(each), size, math.prod(uniform.shape[len(batch) + 1 :]))
    for (outputs, scores, _), ys, us in zip(listings, drawn, uniform, strict=True):
        if scores.max() == -np.inf:
            assert np.all(ys == -1)
            continue
        outputs, ys = ([picked(specimen.kind, y) for y in some] for some in (outputs, ys))
        length, (_, weights) = len(outputs[0]), log_sum_exp(scores, mu)
        assert all(np.all(y[length:] == (0 if rows else -1)) for y in ys)
        orders = map(list, itertools.permutations(range(length)))
        if rows:
            orders = [sorted(range(length), key=lambda v: (-(v // 2), v))]
        assert any(all(is_drawn(outputs, weights, o, y, u[o]) for y, u in zip(ys, us, strict=True)) for o in orders)


@roots
@given(data=st.data(), scores=dependencies(scales=(1.0, 30.0, 0.3, 0.01, 1e-4)), mu=MU)
def test_dependency_trees_are_drawn_by_their_distribution_function(backend, single_root, data, scores, mu):
    """The single root first, by the first number; then branch by branch, each from its first token without a head to
    where it meets what is there, each head by its token's number."""
    specimen = SMALL["Arborescence, one root" if single_root else "Arborescence"][0]
    *batch, n, _ = scores.values.shape
    listings = [specimen.enumerate(one).possible() for one in members(scores)]
    if not all(outputs for outputs, *_ in listings):
        return
    draws = numbers(data, *batch, 3, n + 1)
    drawn = specimen.make(backend, scores).sample(3, mu, Given(draws))
    assert drawn.shape == (*batch, 3, n) and drawn.dtype == np.int64
    each = drawn.reshape(len(listings), 3, n), draws.reshape(len(listings), 3, n + 1)
    for (outputs, values, _), ys, us in zip(listings, *each, strict=True):
        are_trees_drawn(outputs, values, mu, single_root, ys, us)


def are_trees_drawn(outputs, values, mu, single_root, drawn, draws):
    n, (_, weights) = len(outputs[0]), log_sum_exp(values, mu)
    assert np.all(drawn[:, n:] == -1)
    outputs = [(y.index(0) if single_root and n else 0, *y) for y in outputs]  # the root, then the heads
    for y, uniform in zip(drawn[:, :n].tolist(), draws, strict=True):
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


@sampled
def test_draws_are_the_same_in_every_namespace(backend, space, rng, name):
    specimen, make = SMALL[name]
    scores = stored(space, make(lambda shape: rng.normal(size=shape)))
    drawn = space.get(specimen.make(backend, scores, space).sample(6, 0.5, np.random.default_rng(3)))
    stay = Space("numpy", space.dtype, np.asarray)
    assert drawn.dtype == np.int64
    assert np.array_equal(drawn, specimen.make(reference, scores, stay).sample(6, 0.5, rng=3))
