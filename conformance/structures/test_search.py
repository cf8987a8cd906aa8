"""The K best outputs by Best Max-Marginal First (Pillutla et al., Algorithm 10) and by branch and bound (Algorithm 13,
Proposition 15) against enumeration: ties, forbidden outputs, more asked for than there are, rounded max-marginals. Then
subwindow search against all boxes of small images, scored pixel by pixel (section 4.2.2).
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
from accelerated.structures import boxes as box_search
from conformance import strategies
from conformance.specimens import scores as drawn
from conformance.specimens.outputs import listing
from conformance.specimens.scores import size, stored
from conformance.specimens.structures import STRUCTURES
from conformance.tolerances import close
from reference.structures.box_sets import BoxSet, BoxSets


class JointScores(NamedTuple):
    """A score of each state of each variable (p, L), and of each whole output (L,) * p."""

    unary: Any
    joint: Any


def listed(backend, noise=0.0):
    """A structure with any scores, by enumeration. It counts its calls; max-marginals may be off by ``noise``."""

    class Listed(backend.Structure):
        variables = "unary"
        calls: Counter = Counter()

        def enumerate(self):
            return (y for y in itertools.product(*map(range, self.scores.joint.shape)) if self.score(y) > -np.inf)

        def score(self, y):
            return sum((self.scores.unary[v, j] for v, j in enumerate(y)), 0.0) + self.scores.joint[y]

        def best(self):
            self.calls["best"] += 1
            y = max(self.enumerate(), default=None, key=self.score)
            if y is None:
                raise backend.InfeasibleError("none left")
            return self.score(y), np.array(y, np.int64)

        def node_max_marginals(self):
            self.calls["node_max_marginals"] += 1
            phi = np.full(self.scores.unary.shape, -np.inf)
            for y in self.enumerate():
                for v, j in enumerate(y):
                    phi[v, j] = max(phi[v, j], self.score(y))
            wrong = noise * np.random.default_rng(len(self.calls)).normal(size=phi.shape)
            return np.where(phi > -np.inf, phi + wrong, -1e3) if noise else phi  # no state seems impossible

    return Listed


@st.composite
def joints(draw: Any) -> JointScores:
    """Small instances: ties, forbidden states and outputs, one variable, none; eight outputs of three scores, where
    states of different outputs must not be mixed.
    """
    if draw(st.integers(0, 2)) == 0:
        return JointScores(np.zeros((3, 2)), np.sign(draw(strategies.arrays((2, 2, 2), forbidden=False))))
    p, L = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    return JointScores(draw(strategies.arrays((p, L))), draw(strategies.arrays((L,) * p)))


def distinct(labels):
    return len({tuple(row) for row in labels}) == len(labels)


@given(data=st.data(), k=st.one_of(st.integers(1, 4), st.integers(1, 30)))
def test_bmmf_finds_the_k_best_of_any_outputs(backend, data, k):
    scores = data.draw(joints())
    structure = listed(backend)(scores)
    expected = sorted((structure.score(y) for y in structure.enumerate()), reverse=True)[:k]
    found = backend.bmmf(structure, k)
    assert found.scores.shape == (k,) and found.labels.shape == (k, len(scores.unary)) and found.count == len(expected)
    count = int(found.count)
    close(found.scores[:count], expected)
    assert np.all(found.scores[count:] == -np.inf) and np.all(found.labels[count:] == -1)
    assert np.all(np.diff(found.scores[:count]) <= 0) and distinct(found.labels[:count])
    assert [structure.score(tuple(y)) for y in found.labels[:count]] == found.scores[:count].tolist()


@pytest.mark.parametrize(
    "specimen", [each for each in STRUCTURES if each.kind not in ("Table", "Boxes", "Segments")], ids=repr
)
@given(data=st.data(), k=st.integers(1, 12))
def test_bmmf_finds_the_k_best_of_every_structure_with_variables(backend, space, specimen, data, k):
    huge = {"huge": False} if specimen.kind == "Cut" else {}
    instance = stored(space, data.draw(specimen.draw(batched=False, **huge)))
    structure = specimen.make(backend, instance, space)
    ours, theirs, scale = backend.bmmf(structure, k), structure.topk(k), max(1.0, size(instance))
    count = int(space.get(theirs.count))
    assert int(space.get(ours.count)) == count
    close(space.get(ours.scores), space.get(theirs.scores), space.dtype, scale)
    labels = space.get(ours.labels)
    assert labels.dtype == np.int64 and labels.shape == space.get(theirs.labels).shape and distinct(labels[:count])
    for y, score in zip(labels[:count], space.get(ours.scores), strict=False):
        close(float(structure.score(space.integers(y))), score, space.dtype, scale)


@pytest.mark.parametrize("ties", [False, True])
def test_bmmf_asks_for_at_most_2k_sets_of_max_marginals(backend, rng, ties):
    """Theorem 46; two fewer than for each of the k outputs, as nothing is asked once the last is found."""
    joint = rng.integers(0, 2, (3, 3, 3)).astype(float) if ties else rng.normal(size=(3, 3, 3))
    for k in (1, 2, 3, 10, 27, 40):
        kind = listed(backend)
        kind.calls = Counter()
        assert backend.bmmf(kind(JointScores(np.zeros((3, 3)), joint)), k).count == min(k, 27)
        assert kind.calls["node_max_marginals"] <= max(2 * min(k, 27) - (3 if k <= 27 else 1), 0)
        assert kind.calls["best"] == min(k, 27)


@given(data=st.data(), noise=st.sampled_from([1e-12, 1e-3, 30.0]))
def test_bmmf_misses_nothing_and_repeats_nothing_when_max_marginals_are_rounded(backend, data, noise):
    """Also where a state without any output has a finite max-marginal; in order, though found in any."""
    structure = listed(backend, noise)(data.draw(joints()))
    expected = sorted((structure.score(y) for y in structure.enumerate()), reverse=True)
    found = backend.bmmf(structure, 30)
    assert found.count == len(expected)
    assert found.scores[: len(expected)].tolist() == expected and distinct(found.labels[: len(expected)])


def test_decoding_variable_by_variable_needs_unambiguous_scores(backend):
    """Of (0, 1) and (1, 0), which tie, the largest max-marginals of each variable make the worst output, (0, 0)."""
    structure = listed(backend)(JointScores(np.zeros((2, 2)), np.array([[-1.0, 1.0], [1.0, 0.0]])))
    decoded = tuple(structure.node_max_marginals().argmax(axis=1))
    assert decoded == (0, 0) and structure.score(decoded) == -1.0
    assert backend.bmmf(structure, 2).scores.tolist() == [1.0, 1.0]
    best = backend.bmmf(structure, 4)
    assert best.scores.tolist() == [1.0, 1.0, 0.0, -1.0]
    assert best.labels.tolist() == [[0, 1], [1, 0], [1, 1], [0, 0]]


@given(data=st.data())
def test_decoding_variable_by_variable_is_right_for_unambiguous_scores(backend, data):
    """Theorem 45: powers of 2, each a different one, add up to different scores."""
    p, L = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    order = data.draw(st.permutations(range(p * L)))
    structure = listed(backend)(JointScores(2.0 ** np.reshape(np.array(order, float), (p, L)), np.zeros((L,) * p)))
    assert tuple(structure.node_max_marginals().argmax(axis=1)) == tuple(structure.best()[1])


def test_bmmf_needs_constraints(backend):
    with pytest.raises(backend.UnsupportedError, match=r"Table does not implement constrained\(\)"):
        backend.bmmf(backend.Table([0.0, 1.0]), 2)


# branch and bound, over sets that are simply lists --------------------------------------------------------------------


class Runs:
    """Outputs 0..m-1 in runs (first, end): the bound exceeds the best score of a run by what is drawn for it; empty
    runs are split off.
    """

    def __init__(self, scores, seed=0, looseness=1.0):
        self.scores, self.seed, self.looseness, self.asked = scores, seed, looseness, 0

    def everything(self):
        return (0, len(self.scores)) if self.scores else None

    def bound(self, run):
        self.asked += 1
        first, end = run
        excess = np.random.default_rng((self.seed, first, end)).exponential() if end > first + 1 else 0.0
        return max(self.scores[first:end]) + self.looseness * excess

    def split(self, run):
        first, end = run
        cuts = sorted(np.random.default_rng((self.seed, end, first)).integers(first, end + 1, 2).tolist())
        parts = [(a, b) for a, b in itertools.pairwise([first, *cuts, end])]
        if any(part == run for part in parts):
            parts = [(first, (first + end) // 2), ((first + end) // 2, end)]
        return [part if part[0] < part[1] else None for part in parts]

    def single(self, run):
        return run[0] if run[1] == run[0] + 1 else None


listings = st.lists(
    st.sampled_from([-2.5, -1.0, 0.0, -0.0, 1.0, 1.0 + 1e-12, 7.0, -np.inf, 1e300, 1e-300]), max_size=12
)


@given(
    scores=listings, seed=st.integers(0, 2**32 - 1), looseness=st.sampled_from([0.0, 0.5, 100.0]), k=st.integers(1, 14)
)
def test_the_k_best_are_those_of_the_enumeration(backend, scores, seed, looseness, k):
    """Proposition 15: distinct, in order, all of them where there are fewer than k; forbidden ones left out."""
    found = backend.branch_and_bound(Runs(scores, seed, looseness), k)
    allowed = sorted((s for s in scores if s > -np.inf), reverse=True)
    assert [s for s, _ in found] == allowed[:k]
    assert [scores[y] for _, y in found] == [s for s, _ in found]
    assert len({y for _, y in found}) == len(found)


def test_a_tight_bound_leaves_most_sets_alone(backend):
    space = Runs([-float((y - 700) ** 2) for y in range(1000)], looseness=0.0)
    assert [y for _, y in backend.branch_and_bound(space, 3)] in ([700, 699, 701], [700, 701, 699])
    assert space.asked < 120


def test_a_bound_that_is_none_is_found(backend):
    """The best of a pair is above the bound of the pair: the message names the output, its score and the bound;
    rounding is let pass.
    """

    class Wrong(Runs):
        def bound(self, run):
            return max(self.scores[run[0] : run[1]]) - (0.0 if run[1] == run[0] + 1 else self.looseness)

    with pytest.raises(
        ValueError, match="bound: expected an upper bound, got 2.5 for a set with the output 1 of score 3.0"
    ):
        backend.branch_and_bound(Wrong([1.0, 3.0], looseness=0.5), 1)
    assert backend.branch_and_bound(Wrong([1.0, 3.0], looseness=1e-12), 2, tolerance=1e-9) == [(3.0, 1), (1.0, 0)]

    for looseness in (np.nan, -np.inf):
        with pytest.raises(ValueError, match="bound: expected a finite number, or -inf where all is forbidden, got"):
            backend.branch_and_bound(Wrong([1.0, 2.0], looseness=looseness), 1)


def test_where_all_is_forbidden_nothing_is_found(backend):
    assert backend.branch_and_bound(Runs([]), 3) == [] and backend.branch_and_bound(Runs([-np.inf]), 3) == []


# subwindow search -----------------------------------------------------------------------------------------------------


def brute(problem):
    return listing("Boxes", problem._asdict())[:2]


@given(problem=drawn.boxes(scales=(1.0, 1e300, 1e-300), largest=5))
def test_scores_are_added_up_at_their_own_scale(backend, problem):
    """Of the pixels of the box alone: to rounding of them, whatever the others are."""
    boxes = backend.Boxes(*problem)
    for y, expected in zip(*brute(problem), strict=True):
        inside = problem.pixels[y[0] : y[2], y[1] : y[3]]
        if expected > -np.inf:
            unit = max(np.abs(inside).sum() + abs(problem.loss), 1e-305)
            close(float(boxes.score(np.array(y))) / unit, expected / unit)
        else:
            assert float(boxes.score(np.array(y))) == -np.inf


@given(problem=drawn.boxes(largest=5), seed=st.integers(0, 2**32 - 1))
def test_bounds_are_bounds_and_splits_are_partitions(problem, seed):
    """Of sets that splits lead to: no box scores more than its bound, no box is lost or comes twice; of a single box
    the bound is its score.
    """
    boxes, scores = brute(problem)
    sets = BoxSets(problem.pixels, float(problem.loss), problem.truth)
    of = dict(zip(boxes, scores, strict=True))

    def members(s):
        return [y for y in boxes if all(first <= side <= last for side, (first, last) in zip(y, s, strict=True))]

    rng, here = np.random.default_rng(seed), sets.everything()
    assert members(here) == boxes
    while sets.single(here) is None:
        parts = list(sets.split(here))
        inside = [members(part) for part in parts]
        assert sorted(itertools.chain(*inside)) == members(here)
        for part, those in zip(parts, inside, strict=True):
            assert those and max(of[y] for y in those) <= sets.bound(part) + sets.rounding
            assert all({y[s] for y in those} >= set(part[s]) for s in range(4))  # intervals are tight
        here = parts[rng.integers(len(parts))]
    y = sets.single(here)
    close(sets.bound(here), of[y], scale=drawn.size(problem))


def test_the_loss_bound_with_the_smallest_box_in_the_union_is_none():
    """The least intersection over the smallest union overstates the least overlap: a set that shows it."""
    sets = BoxSets(np.zeros((1, 6)), 1.0, np.array([0, 0, 1, 2]))
    wide = BoxSet((0, 0), (0, 0), (1, 1), (1, 6))
    assert sets.bound(wide) >= 1 - 1 / 3  # of columns 0..5 the overlap is 1/3; of column 0 alone 1/2


@given(problem=drawn.boxes(forbidden=False, largest=5), data=st.data())
def test_a_candidate_list_is_a_table_of_their_scores(backend, space, problem, data):
    boxes, scores = brute(problem)
    some = data.draw(st.lists(st.integers(0, len(boxes) - 1), min_size=1, max_size=6))
    mine = backend.Boxes(space.put(problem.pixels), problem.loss, problem.truth)
    table = mine.among(np.array([boxes[i] for i in some]))
    close(space.get(table.scores.values), scores[some], space.dtype, max(1.0, drawn.size(problem)))
    assert space.get(table.scores.values).dtype == space.dtype


def test_a_queue_that_grows_keeps_its_order(monkeypatch):
    """In pieces of a few splits, from room for a few sets; and beyond the limit it says so."""
    rng = np.random.default_rng(0)
    images = [rng.normal(size=(9, 8)), rng.integers(-1, 2, (7, 9)).astype(np.float64), np.zeros((4, 4))]
    usual = [accelerated.Boxes(pixels).topk(9).labels for pixels in images]
    monkeypatch.setattr(box_search, "ROOM", 2)
    monkeypatch.setattr(box_search, "SPLITS", 3)
    for pixels, labels in zip(images, usual, strict=True):
        assert np.array_equal(accelerated.Boxes(pixels).topk(9).labels, labels)
    monkeypatch.setattr(box_search, "LARGEST", 4)
    with pytest.raises(MemoryError, match="best_boxes: 4 sets of boxes wait"):
        accelerated.Boxes(images[0]).best()


@pytest.mark.parametrize("exponent", [-20, -30, -40, -45])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_boxes_that_differ_by_more_than_rounding_do_not_tie(backend, exponent, sign):
    """A pixel far below the others belongs to the best box iff it is positive; 8 (H + W) eps of their sum is 2^-45."""
    for shape in ((1, 3), (3, 1), (2, 2)):
        for place in np.ndindex(*shape):
            pixels = np.full(shape, 0.25)
            pixels[place] = sign * 2.0**exponent
            boxes, scores, _ = listing("Boxes", {"pixels": pixels})  # sums of powers of two: exact
            found = backend.Boxes(pixels).topk(len(boxes))
            assert np.asarray(found.scores).tolist() == sorted(scores, reverse=True)
            value, box = backend.Boxes(pixels).best()
            assert value == scores[boxes.index(tuple(box.tolist()))] == scores.max()
