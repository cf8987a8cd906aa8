"""Made scenes and the features of boxes: what they promise, and that features see what is in a box."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.specimens.pages import entries
from diptych.box_features import box_features, filter_responses
from diptych.scenes import SMALLEST, make_scenes
from reference.structures.boxes import iou

SMALL = {"candidates": 30, "directions": 4, "scales": 2, "size": 64}


def test_scenes_are_what_they_promise():
    """As many of each class, together; different boxes inside the image; some on the object, most not; the object is
    darker than the page.
    """
    found = list(make_scenes(7, classes="gae", **SMALL))
    assert [image.label for image in found] == [0, 0, 0, 1, 1, 2, 2]
    for image in found:
        assert image.boxes.shape == (30, 4) and len(set(map(tuple, image.boxes.tolist()))) == 30
        assert image.boxes.min() >= 0 and image.boxes.max() <= 64
        assert (image.boxes[:, 2:] - image.boxes[:, :2]).min() >= SMALLEST
        assert image.features.shape == (30, 3, 3, 16) and image.features.dtype == np.float32
        overlap = iou(image.boxes, image.truth)
        assert overlap.max() >= 0.5 and np.mean(overlap >= 0.5) <= 0.3
        top, left, bottom, right = image.truth
        assert image.pixels.shape == (64, 64) and 0 <= top < bottom <= 64 and 0 <= left < right <= 64
        inside = image.pixels[top:bottom, left:right]
        assert inside.min() < np.median(image.pixels) - 40
        for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]):  # the box is tight: ink on each side
            assert edge.min() < np.median(image.pixels) - 20


def test_scenes_are_drawn_by_rng():
    """The same again, whatever n; others by another rng, for another class and for the test."""
    three, six = (list(make_scenes(n, classes="ae", rng=3, **SMALL)) for n in (3, 6))
    for a, b in ((three[0], six[0]), (three[1], six[1]), (three[2], six[3])):
        assert np.array_equal(a.pixels, b.pixels) and np.array_equal(a.features, b.features)
    others = [
        next(make_scenes(1, classes="ae", rng=4, **SMALL)),
        next(make_scenes(1, classes="ae", rng=3, test=True, **SMALL)),
    ]
    for a, b in itertools.combinations([six[0].pixels, six[1].pixels, six[3].pixels, *(x.pixels for x in others)], 2):
        assert not np.array_equal(a, b)


@pytest.mark.parametrize(("entry", "message"), entries("wrong_scenes.txt"))
def test_wrong_requests_are_refused_at_once(entry, message):
    with pytest.raises(ValueError, match=message):
        eval(f"make_scenes({entry})")


def test_cells_against_pixels(rng):
    """A box whose sides 3 divides: each cell is the plain mean of its pixels, then all are of mean square 1."""
    responses = rng.random((20, 24, 5))
    (found,) = box_features(responses, np.array([[2, 3, 11, 18]]))
    cells = responses[2:11, 3:18].reshape(3, 3, 3, 5, 5).mean(axis=(1, 3))
    assert np.allclose(found, cells / np.sqrt(np.mean(cells**2)), rtol=1e-6, atol=1e-6)


def test_cells_between_pixels(rng):
    """Parts of pixels count by their share: a box of 4 x 4 on a grid of 3 x 3, enlarged threefold, has whole pixels
    only.
    """
    responses = rng.random((8, 9, 2))
    large = np.repeat(np.repeat(responses, 3, axis=0), 3, axis=1)
    boxes = np.array([[1, 2, 5, 6], [0, 0, 8, 9], [7, 8, 8, 9]])
    assert np.allclose(box_features(responses, boxes), box_features(large, 3 * boxes), rtol=1e-5, atol=1e-6)


def test_nothing_to_see_is_zero():
    flat = filter_responses(np.full((20, 30), 0.7))
    assert flat.shape == (20, 30, 64) and np.abs(flat).max() < 1e-12
    assert np.array_equal(box_features(np.zeros((6, 6, 2)), np.array([[0, 0, 6, 6]])), np.zeros((1, 3, 3, 2)))


def test_filters_know_directions():
    """A dark stroke upright answers in the channel across it; turned by a quarter of a turn, channels move by as
    much.
    """
    image = np.ones((31, 31))
    image[:, 14:17] = 0.0
    found, turned = filter_responses(image, 8, 2), filter_responses(image.T, 8, 2)
    edges, strokes = found[15, :, :8], found[15, 15, 8:16]
    assert np.argmax(strokes) == 0 and strokes[4] < 1e-12  # direction 0 is across, along the row
    assert (
        np.argmax(edges[12]) == 4 and np.argmax(edges[18]) == 0
    )  # darker to the right of column 12: the slope is negative
    assert np.argmax(turned[15, 15, 8:16]) == 4
    assert np.allclose(
        turned[:, :, 8:16],
        np.roll(found.transpose(1, 0, 2)[:, :, 8:16], 4, axis=2)[:, :, [0, 7, 6, 5, 4, 3, 2, 1]],
        atol=1e-12,
    )
    slope = np.where(np.abs(np.subtract.outer(np.arange(31), np.arange(31))) <= 1, 0.0, 1.0)  # down to the right
    assert (
        np.argmax(filter_responses(slope, 8, 2)[15, 15, 8:16]) == 6
    )  # across it: 3/4 of half a turn, down to the left
    lighter = filter_responses(0.5 + 0.3 * image, 8, 2)
    assert np.allclose(lighter, 0.3 * found, atol=1e-12)  # a change of light is a factor
