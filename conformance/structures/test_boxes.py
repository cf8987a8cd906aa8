"""Subwindow search against all boxes of small images, scored pixel by pixel (Pillutla et al., section 4.2.2)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelerated
import reference
from accelerated.structures import boxes as search
from conformance.specimens import structures
from conformance.specimens.outputs import OUTPUTS, listing
from conformance.tolerances import close
from reference.structures.box_sets import BoxSet, BoxSets


def all_boxes(H, W):
    return list(OUTPUTS["Boxes"].all({"pixels": np.zeros((H, W))}))


def cells(box):
    return {(i, j) for i in range(box[0], box[2]) for j in range(box[1], box[3])}


def brute(problem):
    return listing("Boxes", problem._asdict())[:2]


@given(problem=structures.boxes(scales=(1.0, 1e300, 1e-300), largest=5))
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


@given(problem=structures.boxes(largest=5), seed=st.integers(0, 2**32 - 1))
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
    close(sets.bound(here), of[y], scale=structures.size(problem))


def test_the_loss_bound_with_the_smallest_box_in_the_union_is_none():
    """The least intersection over the smallest union overstates the least overlap: a set that shows it."""
    sets = BoxSets(np.zeros((1, 6)), 1.0, np.array([0, 0, 1, 2]))
    wide = BoxSet((0, 0), (0, 0), (1, 1), (1, 6))
    assert sets.bound(wide) >= 1 - 1 / 3  # of columns 0..5 the overlap is 1/3; of column 0 alone 1/2


@given(problem=structures.boxes(forbidden=False, largest=5), data=st.data())
def test_a_candidate_list_is_a_table_of_their_scores(backend, space, problem, data):
    boxes, scores = brute(problem)
    some = data.draw(st.lists(st.integers(0, len(boxes) - 1), min_size=1, max_size=6))
    mine = backend.Boxes(space.put(problem.pixels), problem.loss, problem.truth)
    table = mine.among(np.array([boxes[i] for i in some]))
    close(space.get(table.scores.values), scores[some], space.dtype, max(1.0, structures.size(problem)))
    assert space.get(table.scores.values).dtype == space.dtype


@given(problem=structures.boxes(forbidden=False))
def test_the_smoothed_max_over_the_k_best(backend, problem):
    """Of the listed boxes; and the gradient is that of its value, in the pixels and in the weight of the loss."""
    _, scores = brute(problem)
    mine, mu = backend.Boxes(*problem), 3.0
    value, gradient = mine.smooth_max(backend.smoothings.TopK(3), mu)
    expected, weights = backend.Table(np.sort(scores)[::-1][:3]).smooth_max(backend.smoothings.TopK(3), mu)
    close(value, expected, scale=max(1.0, structures.size(problem)))
    total = (
        np.sum(np.where(gradient.pixels != 0, gradient.pixels * problem.pixels, 0.0))
        + float(gradient.loss) * problem.loss
    )
    close(total, weights.values @ np.sort(scores)[::-1][:3], scale=max(1.0, structures.size(problem)))


def test_panels_meet_boxes_in_the_same_order(other):
    """Ties too: where all pixels are equal, and with the loss."""
    rng = np.random.default_rng(0)
    for pixels in (np.zeros((4, 6)), rng.integers(-1, 2, (6, 7)), -np.ones((5, 5)), rng.normal(size=(12, 9))):
        for loss, truth in ((0.0, None), (1.0, [1, 2, 3, 4]), (-2.0, [0, 0, 4, 5])):
            for k in (1, 7, 60):
                mine, theirs = (b.Boxes(pixels, loss, truth).topk(k) for b in (other, reference))
                assert np.array_equal(mine.labels, theirs.labels)
                close(mine.scores, theirs.scores)


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


def test_augmenting_adds_the_loss(backend):
    rng = np.random.default_rng(1)
    pixels, truth = rng.normal(size=(4, 4)), np.array([1, 0, 3, 2])
    loss = backend.BoxScores(np.zeros((4, 4)), np.array(1.0), truth)
    mine = backend.Boxes(pixels).augment(loss)
    for y in all_boxes(4, 4):
        close(mine.score(np.array(y)), pixels[y[0] : y[2], y[1] : y[3]].sum() + 1 - backend.iou(y, truth))
    twice = mine.augment(loss)
    close(twice.scores.loss, 2.0)
    with pytest.raises(ValueError, match=r"loss: expected the truth \[1, 0, 3, 2\], got \[0, 0, 1, 1\]"):
        mine.augment(loss._replace(truth=np.array([0, 0, 1, 1])))
    for wrong, message in (
        (loss._replace(loss=np.array(-np.inf)), "loss: expected a finite number"),
        (loss._replace(truth=None), "truth: expected a box, as loss is not 0"),
        (loss._replace(truth=np.array([0, 0, 5, 5])), "truth: "),
        (loss._replace(truth=np.array([1, 1, 1, 1])), "truth: "),
    ):
        with pytest.raises(ValueError, match=message):
            backend.Boxes(pixels).augment(wrong)
