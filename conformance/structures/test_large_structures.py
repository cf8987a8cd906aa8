"""Laws of structures beyond enumeration: scales, constraints, distributions, and the panels on one instance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import reference
from conformance.namespaces import Space
from conformance.specimens.scores import random_parents
from conformance.specimens.structures import LARGE, SMALL
from conformance.tolerances import close
from reference import ArborescenceScores, ChainScores, GraphScores, MatchingScores, SegmentScores, TreeScores
from reference.structures.scores import score_fields

KINDS = {
    "ordinary": lambda rng, shape: rng.normal(size=shape),
    "ties": lambda rng, shape: rng.integers(-2, 3, shape) / 4.0,
    "forbidden": lambda rng, shape: np.where(rng.random(shape) < 0.1, -np.inf, rng.normal(size=shape)),
}
everywhere = pytest.mark.parametrize("name", LARGE)
of_all_kinds = pytest.mark.parametrize("kind", KINDS)


def instance(name, rng, kind, scale=1.0):
    """Scores of a kind at a scale; of a cut those of unequal labels are below 0."""
    return LARGE[name][1](lambda shape: scale * KINDS[kind](rng, shape))


def made(backend, name, scores, factor=1.0):
    names = set(scores._fields) - set(getattr(scores, "layout", ()))
    return LARGE[name][0].make(backend, scores._replace(**{each: factor * getattr(scores, each) for each in names}))


def possible(structure):
    """The best score, or None where every output is forbidden."""
    try:
        return structure.best()[0]
    except ValueError as problem:
        assert "every output is forbidden" in str(problem)
        return None


@everywhere
@of_all_kinds
def test_powers_of_two_scale_every_answer(backend, rng, name, kind):
    """They change no rounding: the same outputs, scores scaled exactly."""
    scores = instance(name, rng, kind)
    plain = made(backend, name, scores)
    if possible(plain) is None:
        return
    for exponent in (-900, -400, 400, 900):
        scaled = made(backend, name, scores, 2.0**exponent)
        (value, y), (v, z) = plain.best(), scaled.best()
        assert np.array_equal(v, np.ldexp(value, exponent)) and np.array_equal(z, y)
        few, again = plain.topk(5), scaled.topk(5)
        assert np.array_equal(again.scores, np.ldexp(few.scores, exponent))
        assert np.array_equal(again.labels, few.labels)
        if plain.supports("max_marginals"):
            for a, b in zip(*(score_fields(s.max_marginals()) for s in (plain, scaled)), strict=True):
                assert np.array_equal(b, np.ldexp(a, exponent))
        if plain.supports("expectation"):
            mu = 2.0**exponent
            close(np.ldexp(scaled.log_partition(mu), -exponent), plain.log_partition())
            for a, b in zip(*(score_fields(s.marginals(m)) for s, m in ((plain, 1.0), (scaled, mu))), strict=True):
                close(b, a)


@everywhere
@of_all_kinds
def test_max_marginals_are_the_best_scores_under_a_constraint(backend, rng, name, kind):
    """At every scale: of some states of some variables; and each variable has a state in the best output."""
    for scale in (1e-300, 1.0, 1e300):
        structure = made(backend, name, instance(name, rng, kind, scale))
        best = possible(structure)
        if structure.variables is None or best is None:
            continue
        found = np.asarray(structure.node_max_marginals()) / scale
        *batch, p, states = found.shape
        lengths = getattr(structure.scores, "lengths", None)
        there = np.arange(p) < (np.full((*batch, 1), p) if lengths is None else lengths[:, None])
        highest = np.where(there, found.max(axis=-1), np.asarray(best / scale)[..., None])
        close(highest, np.broadcast_to(np.asarray(best / scale)[..., None], highest.shape))
        for v, j in zip(rng.integers(0, p, 6), rng.integers(0, states, 6), strict=True):
            allowed = np.ones((p, states), bool)
            allowed[v] = np.arange(states) == j
            limited = possible(structure.constrained(allowed))
            if limited is None:
                assert np.any(found[..., v, j] == -np.inf)
            else:
                close(np.where(there[..., v], found[..., v, j], limited / scale), limited / scale)


EPS = np.finfo(np.float64).eps
SCALES = [1.0, 1e5, 1e10, 1e13, 1e16, 1e20, 1e100, 1e300]
NEAR = {
    "tied": lambda rng, scale, shape: scale * rng.integers(-2, 3, shape),
    "nearly tied": lambda rng, scale, shape: scale * rng.integers(-2, 3, shape) + rng.normal(size=shape),
    "some forbidden": lambda rng, scale, shape: np.where(
        rng.random(shape) < 0.1, -np.inf, scale * rng.integers(-2, 3, shape) + rng.normal(size=shape)
    ),
}
BOTH = {**SMALL, **{f"{name}, large": each for name, each in LARGE.items()}}
summed = pytest.mark.parametrize("name", [name for name, (each, _) in BOTH.items() if "expectation" in each.promises])


def covered(marginals):
    """How often segments (..., n, W, L) cover each token (..., n)."""
    by_length = marginals.sum(axis=-1)
    total = np.zeros(by_length.shape[:-1])
    for s, w in np.ndindex(by_length.shape[-2:]):
        total[..., s : s + w + 1] += by_length[..., s, w, None]
    return total


@summed
@pytest.mark.parametrize("near", NEAR)
def test_marginals_are_a_distribution(backend, rng, name, near):
    """Ties, near ties and huge scores, which have lost their fractions: probabilities are still probabilities.

    Marginals of pairs sum to those of variables, up to rounding; of the scores, unless a structure promises more. One
    segment covers each token, and each but the first follows one boundary.
    """
    specimen, make = BOTH[name]
    for scale, mu in itertools.product(SCALES, (1e-3, 1.0, 1e4)):
        scores = make(lambda shape, scale=scale: NEAR[near](rng, scale, shape).astype(np.float64))
        structure = specimen.make(backend, scores)
        best = possible(structure)
        if best is None:
            continue
        value, marginals = structure.expectation(mu)
        apart = 1e-13 if "consistent" in specimen.promises else 16 * EPS * max(1.0, scale / mu)
        first, *fields = score_fields(marginals)
        lengths = getattr(scores, "lengths", None)
        total = covered(first) if specimen.kind == "Segments" else first.sum(axis=-1)
        there = np.ones(total.shape) if lengths is None else 1.0 * (np.arange(total.shape[-1]) < lengths[:, None])
        np.testing.assert_allclose(total, there, rtol=0, atol=1e-13)
        for pairs in fields:
            if specimen.kind == "Segments":
                later = np.moveaxis(first, -1, 0)[..., 1:, :].reshape(first.shape[-1], -1).sum(axis=-1)
                np.testing.assert_allclose(pairs.reshape(-1, len(later)).sum(axis=0), later, rtol=0, atol=1e-11)
            elif specimen.ends is None:
                np.testing.assert_allclose(pairs.sum(axis=(-2, -1)), 1.0, rtol=0, atol=1e-13)
            elif pairs.ndim == 2:
                np.testing.assert_allclose(pairs.sum(), total[..., specimen.ends(scores)[0][:, 1]].sum(), rtol=1e-13)
            else:
                ends, edges = specimen.ends(scores)
                first_end, second_end = (first[..., ends[:, i], :] for i in (0, 1))
                np.testing.assert_allclose(pairs[..., edges, :, :].sum(axis=-1), first_end, rtol=0, atol=apart)
                np.testing.assert_allclose(pairs[..., edges, :, :].sum(axis=-2), second_end, rtol=0, atol=apart)
        assert all(np.all(field >= 0) for field in (first, *fields))
        slack = 1e-13 * (4 * math.prod(total.shape[-1:]) * scale + mu)
        assert np.all(best - slack <= value)
        if np.ndim(value) == 0:
            assert value <= best + mu * math.log(structure.count()) + slack


def test_long_sequences_are_counted_exactly(backend):
    """n tokens of segments of any length: L (L + 1)^(n - 1); a log-partition at scores of 0 is the log of the count."""
    free = backend.Segments(np.zeros((90, 90, 3)), np.zeros((3, 3)))
    assert free.count() == 3 * 4**89 and type(free.count()) is int
    for W, L in ((1, 3), (7, 2)):
        space = backend.Segments(np.zeros((700, W, L)), np.zeros((L, L)))
        close(space.log_partition(), math.log(space.count()))


LENGTHS = np.array([11, 0, 23, 1, 5])
PARENTS_OF_23 = random_parents(np.random.default_rng(0), 23, "forest")


def wide(L, shared):
    """Ragged chains and forests of L labels: vectors of the kernels with padding and without."""

    def chains(draw):
        return ChainScores(draw((5, 23, L)), draw((L, L) if shared else (5, 22, L, L)), LENGTHS)

    def trees(draw):
        pairwise = draw((L, L) if shared else (5, 23, L, L))
        return TreeScores(draw((5, 23, L)), pairwise, PARENTS_OF_23, 1 + np.arange(23) * (L - 1) // 22)

    form = "shared" if shared else "own"
    yield f"Chain of {L}, {form}", (LARGE["Chain"][0], chains)
    yield f"Tree of {L}, {form}", (LARGE["Tree, tree"][0], trees)


def apart(draw):
    """Trees of tokens of which few arcs leave a half, or the root, and weigh nothing beside others."""
    values = draw((8, 9))
    values[:, 0] -= 2e3
    values[:4, 5:] -= 2e3
    values[4:, 1:5] -= 2e3
    return ArborescenceScores(values)


def cliques(draw):
    """A graph whose cliques have several variables of their own; some variables have no edge; edges either way."""
    pairs = np.array(list(itertools.combinations(range(12), 2)))[::4]
    pairs[::2] = pairs[::2, ::-1]
    return GraphScores(draw((14, 4)), draw((len(pairs), 4, 4)), pairs, 1 + np.arange(14) % 4)


def halves(draw):
    """Segments with labels of two halves: one hardly follows the other, and each is all but impossible for a while, so
    that the products of all columns of probabilities are below what a float holds.
    """
    scores = SegmentScores(draw((5, 70, 9, 11)), draw((11, 11)), np.array([70, 0, 1, 33, 9]))
    scores.pairwise[:5, 5:] -= 450.0
    scores.pairwise[5:, :5] -= 450.0
    scores.segments[:, 20:25, :, :5] -= 600.0
    scores.segments[:, 30, :, 5:] -= 1350.0
    return scores


WIDTHS = itertools.product((1, 7, 8, 9, 26, 50), (True, False))
COMPARED = {**LARGE, **{name: each for width in WIDTHS for name, each in wide(*width)}}
COMPARED |= {f"{name}, apart": (LARGE[name][0], apart) for name in ("Arborescence", "Arborescence, one root")}
COMPARED |= {
    f"{name}, ragged": (LARGE[name][0], lambda draw: ArborescenceScores(draw((5, 11, 12)), np.array([11, 0, 7, 1, 4])))
    for name in ("Arborescence", "Arborescence, one root")
}
COMPARED["Matching, ragged"] = (
    LARGE["Matching, 9 x 9"][0],
    lambda draw: MatchingScores(draw((5, 7, 9)), np.array([[7, 9], [0, 4], [6, 3], [1, 1], [4, 4]])),
)
COMPARED["Graph, cliques"] = (LARGE["Graph, grid"][0], cliques)
COMPARED["Segments, halves"] = (LARGE["Segments"][0], halves)


@pytest.mark.parametrize("name", COMPARED)
@of_all_kinds
@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
def test_panels_agree(other, rng, name, kind, scale):
    """Values, or bits where a structure promises them; labels where nothing ties, or by promise; draws by the same
    numbers.
    """
    specimen, make = COMPARED[name]
    scores = make(lambda shape: scale * KINDS[kind](rng, shape))
    ours, theirs = (specimen.make(panel, scores) for panel in (reference, other))
    feasible = possible(ours) is not None
    assert (possible(theirs) is not None) == feasible
    best = [(ours.topk(k), theirs.topk(k)) for k in (1, 2, 6, 12)]
    values, labels = ([(getattr(a, field), getattr(b, field)) for a, b in best] for field in ("scores", "labels"))
    if ours.supports("max_marginals"):
        values += zip(score_fields(ours.max_marginals()), score_fields(theirs.max_marginals()), strict=True)
    if feasible:
        (value, y), (v, z) = ours.best(), theirs.best()
        values, labels = [*values, (value, v)], [*labels, (y, z)]
    for a, b in values:
        if "bits" in specimen.promises:
            assert np.array_equal(a, b)
        else:
            close(b, a)
    if kind != "ties" or "order" in specimen.promises:
        assert all(np.array_equal(a, b) for a, b in labels)
    if feasible and ours.supports("expectation") and "expectation" not in ours.intractable:
        close(theirs.log_partition(), ours.log_partition())
        for a, b in zip(score_fields(theirs.marginals()), score_fields(ours.marginals()), strict=True):
            close(a, b, scale=max(1.0, 1e-3 * scale) * 20)
        assert np.array_equal(theirs.sample(40, 0.8, rng=1), ours.sample(40, 0.8, rng=1))


@summed
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_log_probability_is_above_zero(backend, rng, name, dtype):
    """The best output's share is at most 1, so its score is at most the log-partition, as floats too."""
    specimen, make = BOTH[name]
    for scale, mu in itertools.product([1.0, 1e3, 3e7, 1e15], (1e-3, 1.0)):
        for _ in range(5):
            scores = make(lambda shape, scale=scale: NEAR["nearly tied"](rng, scale, shape))
            structure = specimen.make(backend, scores, Space("numpy", dtype, np.asarray))
            (best, y), value = structure.best(), structure.log_partition(mu)
            assert value.dtype == dtype and np.all(best <= value) and np.all(structure.score(y) - value <= 0)
            assert structure.marginals(mu)[0].max() <= 1 + 4 * np.finfo(dtype).eps


@summed
def test_scores_far_apart_leave_the_best_output(backend, rng, name):
    """The log-partition is its score, the marginals are its parts."""
    specimen, make = BOTH[name]
    structure = specimen.make(backend, make(lambda shape: 1e6 * rng.normal(size=shape)))
    (best, y), (value, marginals) = structure.best(), structure.expectation()
    close(value, best)
    for found, part in zip(score_fields(marginals), score_fields(structure.parts(y)), strict=True):
        close(found, part)


CHECKED = ("Tree", "Graph", "Matching", "Arborescence")


@pytest.mark.parametrize("name", [name for name, (each, _) in BOTH.items() if each.kind in CHECKED])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_score_is_no_number(backend, rng, name, bad):
    """Scores of weights that left the finite numbers, which no constructor has seen: nan, and no loop without end."""
    specimen, make = BOTH[name]
    if specimen.kind in ("Tree", "Graph"):
        backend.requires("checked kernels")
    for field in range(len(score_fields(make(np.zeros)))):
        scores = make(lambda shape: rng.normal(size=shape))
        scores[field][..., -1, 0] = bad
        structure = type(specimen.make(backend, make(np.zeros))).unchecked(scores)
        value, y = structure.best()
        assert np.all(np.isnan(value)) and np.all(np.asarray(y) == -1)
        assert not any(np.any(part) for part in score_fields(structure.parts(y)))
        assert not np.any(np.asarray(structure.topk(1).scores) > -np.inf)
        if "expectation" in specimen.promises:
            assert np.all(np.isnan(structure.expectation()[0]))
        else:
            assert np.all(np.isnan(structure.max_marginals().values))
