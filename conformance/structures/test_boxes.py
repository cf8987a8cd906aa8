"""Subwindow search against all boxes of small images, scored pixel by pixel (Pillutla et al., section 4.2.2)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
from accelerated.structures import boxes as search
from conformance.specimens import scores as drawn
from conformance.specimens.outputs import listing
from conformance.tolerances import close
from reference.structures.box_sets import BoxSet, BoxSets


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
    monkeypatch.setattr(search, "ROOM", 2)
    monkeypatch.setattr(search, "SPLITS", 3)
    for pixels, labels in zip(images, usual, strict=True):
        assert np.array_equal(accelerated.Boxes(pixels).topk(9).labels, labels)
    monkeypatch.setattr(search, "LARGEST", 4)
    with pytest.raises(MemoryError, match="best_boxes: 4 sets of boxes wait"):
        accelerated.Boxes(images[0]).best()


def test_a_planted_region_is_found_in_a_large_image(backend):
    pixels = -1.0 + 0.5 * np.random.default_rng(0).normal(size=(120, 90))
    pixels[30:62, 41:58] += 3.0
    value, y = backend.Boxes(pixels).best()
    assert float(backend.iou(y, [30, 41, 62, 58])) > 0.9 and value >= pixels[30:62, 41:58].sum()
    highest = np.unravel_index(np.argmax(pixels - 9.0), pixels.shape)
    _, y = backend.Boxes(pixels - 9.0).best()  # all negative: the highest pixel alone
    assert y.tolist() == [highest[0], highest[1], highest[0] + 1, highest[1] + 1]


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
