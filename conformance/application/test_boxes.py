"""Images with candidate boxes: files that are mapped and not read, made scenes, the features of boxes, and CorLoc and
average precision by hand and by their definitions.
"""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.damage import spoil
from conformance.specimens.pages import entries
from diptych.box_features import box_features, filter_responses
from diptych.files.localization import ALIGN, MAGIC, load_localization
from diptych.files.localization_writer import LocalizationImage, save_localization
from diptych.metrics import average_precision, corloc
from diptych.scenes import SMALLEST, make_scenes
from reference.structures.boxes import iou


def images(rng, n=3, shape=(2, 2, 3), pixels=True):
    """Images of several sizes and numbers of candidates."""
    for i in range(n):
        size = (10 + i, 12)
        low = rng.integers(0, 5, (4 + i, 2))
        boxes = np.concatenate([low, low + rng.integers(1, 6, low.shape)], axis=1)
        page = rng.integers(0, 256, size).astype(np.uint8) if pixels else None
        features = rng.normal(size=(len(boxes), *shape)).astype(np.float32)
        yield LocalizationImage(boxes, features, size, [1, 2, 4, 5], np.int32(i % 2), page)


@pytest.mark.parametrize("pixels", [True, False])
def test_read_as_written(tmp_path, rng, pixels):
    given = list(images(rng, pixels=pixels))
    path = tmp_path / "a.boxes"
    save_localization(path, iter(given), ["cat", "Hündin"], {"made": "by hand"})
    found = load_localization(path)
    assert found.classes == ("cat", "Hündin") and found.info == {"made": "by hand"} and found.n == 3
    assert found.features.dtype == np.float32 and found.features.shape == (15, 2, 2, 3)
    for i, image in enumerate(given):
        assert np.array_equal(found.candidates(i), image.boxes) and np.array_equal(found.features_of(i), image.features)
        assert found.truth[i].tolist() == image.truth and found.labels[i] == image.label
        assert tuple(found.sizes[i]) == image.size
        assert (found.picture(i) is None) if not pixels else np.array_equal(found.picture(i), image.pixels)
    assert found.of_class("cat").tolist() == [0, 2] and "3 images, 15 candidates, features 2 x 2 x 3" in repr(found)
    with pytest.raises(ValueError, match="no class 'dog'; it has cat, Hündin"):
        found.of_class("dog")


def test_features_are_mapped_and_checked_when_they_are_needed(tmp_path, rng):
    """What the format promises to other readers: two lines, arrays at multiples of 64 bytes; features are not read,
    and cannot be written.
    """
    path, given = tmp_path / "a.boxes", list(images(rng))
    save_localization(path, given, ["a", "b"])
    found, content = load_localization(path), path.read_bytes()
    assert isinstance(found.features, np.memmap) and not found.features.flags.writeable
    assert content.startswith(MAGIC)
    start = content.index(b"\n", len(MAGIC)) + 1
    header = json.loads(content[len(MAGIC) : start])
    assert start % ALIGN == 0 and all(array["offset"] % ALIGN == 0 for array in header["arrays"].values())
    boxes = header["arrays"]["boxes"]
    raw = np.frombuffer(content, "<i4", 15 * 4, start + boxes["offset"]).reshape(boxes["shape"])
    assert np.array_equal(raw, np.concatenate([image.boxes for image in given]))
    spoil(path, "features[6, 0, 1, 2] = np.inf")
    found = load_localization(path)
    found.features_of(0)
    with pytest.raises(ValueError, match="image 1: features: expected finite numbers, candidate 2 has others"):
        found.features_of(1)


@pytest.mark.parametrize(("entry", "message"), entries("wrong_images.txt"))
def test_what_is_no_image_is_not_written(tmp_path, rng, entry, message):
    """An older file stays."""
    given = {"images": list(images(rng)), "classes": ["a", "b"], "info": None}
    exec(entry, {"np": np}, given)
    kind = TypeError if message.startswith("TypeError: ") else ValueError
    path = tmp_path / "a.boxes"
    path.write_bytes(b"older")
    with pytest.raises(kind, match=message.removeprefix("TypeError: ")):
        save_localization(path, *given.values())
    assert path.read_bytes() == b"older" and list(tmp_path.iterdir()) == [path]


def test_without_answers(tmp_path, rng):
    """Images to find objects in: no true boxes, no classes; who asks for them is told. Else the best candidate is that
    of the highest intersection over union, the first of equals.
    """
    given = [image._replace(truth=None, label=None) for image in images(rng)]
    save_localization(tmp_path / "a.boxes", given, ["a", "b"])
    found = load_localization(tmp_path / "a.boxes")
    assert found.n == 3 and found.truth is None and found.labels is None
    with pytest.raises(ValueError, match="a.boxes: no field truth"):
        found.best_candidates()
    with pytest.raises(ValueError, match="a.boxes: no field labels"):
        found.of_class("a")
    boxes = np.array([[0, 0, 4, 4], [1, 1, 4, 4], [1, 1, 4, 4], [4, 4, 8, 8]])
    image = LocalizationImage(boxes, np.ones((4, 1, 1, 1)), (9, 9), [1, 1, 4, 5], 0)
    save_localization(tmp_path / "a.boxes", [image], ["a"])
    found = load_localization(tmp_path / "a.boxes")
    assert found.best_candidates().tolist() == [1] and found.overlaps(0).tolist() == [9 / 19, 0.75, 0.75, 0.0]


def test_examples_are_those_of_the_images(tmp_path, rng):
    """Of images that lie one after another the features are the file's own; of others copies."""
    given = list(images(rng))
    save_localization(tmp_path / "a.boxes", given, ["a", "b"])
    found = load_localization(tmp_path / "a.boxes")
    for some in ([0, 1], [1, 2], [2], [2, 0], [0, 2], []):
        X = found.examples(np.array(some, np.int64))
        for k, i in enumerate(some):
            assert np.array_equal(X.boxes[X.offsets[k] : X.offsets[k + 1]], given[i].boxes)
            assert np.array_equal(X.features[X.offsets[k] : X.offsets[k + 1]], given[i].features)
        assert X.offsets[-1] == len(X.boxes) == len(X.features)
        assert np.shares_memory(X.features, found.features) == (some in ([0, 1], [1, 2], [2]))


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
    others = [next(make_scenes(1, classes="ae", **how, **SMALL)) for how in ({"rng": 4}, {"rng": 3, "test": True})]
    for a, b in itertools.combinations([six[0], six[1], six[3], *others], 2):
        assert not np.array_equal(a.pixels, b.pixels)


@pytest.mark.parametrize(("entry", "message"), entries("wrong_scenes.txt"))
def test_wrong_requests_are_refused_at_once(entry, message):
    with pytest.raises(ValueError, match=message):
        eval(f"make_scenes({entry})")


def test_cells_are_means_of_their_pixels(rng):
    """Of mean square 1. Parts of pixels count by their share: an image that is enlarged threefold has whole pixels
    only, and there the cells are plain means.
    """
    responses = rng.random((8, 9, 2))
    large = np.repeat(np.repeat(responses, 3, axis=0), 3, axis=1)
    boxes = np.array([[1, 2, 5, 6], [0, 0, 8, 9], [7, 8, 8, 9]])
    found = box_features(responses, boxes)
    assert np.allclose(found, box_features(large, 3 * boxes), rtol=1e-5, atol=1e-6)
    for each, (top, left, bottom, right) in zip(found, 3 * boxes, strict=True):
        cells = large[top:bottom, left:right].reshape(3, (bottom - top) // 3, 3, (right - left) // 3, 2).mean((1, 3))
        assert np.allclose(each, cells / np.sqrt(np.mean(cells**2)), rtol=1e-5, atol=1e-6)
    assert np.array_equal(box_features(np.zeros((6, 6, 2)), np.array([[0, 0, 6, 6]])), np.zeros((1, 3, 3, 2)))


def test_filters_know_directions():
    """A dark stroke upright answers in the channel across it; turned by a quarter of a turn, channels move by as
    much. On a flat image there is nothing to see.
    """
    image = np.ones((31, 31))
    image[:, 14:17] = 0.0
    found, turned = filter_responses(image, 8, 2), filter_responses(image.T, 8, 2)
    edges, strokes = found[15, :, :8], found[15, 15, 8:16]
    assert np.argmax(strokes) == 0 and strokes[4] < 1e-12  # direction 0 is across, along the row
    assert np.argmax(edges[12]) == 4 and np.argmax(edges[18]) == 0  # the slope is negative where it grows darker
    assert np.argmax(turned[15, 15, 8:16]) == 4
    quarter = np.roll(found.transpose(1, 0, 2)[:, :, 8:16], 4, axis=2)[:, :, [0, 7, 6, 5, 4, 3, 2, 1]]
    assert np.allclose(turned[:, :, 8:16], quarter, atol=1e-12)
    slope = np.where(np.abs(np.subtract.outer(np.arange(31), np.arange(31))) <= 1, 0.0, 1.0)  # down to the right
    assert np.argmax(filter_responses(slope, 8, 2)[15, 15, 8:16]) == 6  # across it: 3/4 of half a turn
    assert np.allclose(filter_responses(0.5 + 0.3 * image, 8, 2), 0.3 * found, atol=1e-12)  # light is a factor
    flat = filter_responses(np.full((20, 30), 0.7))
    assert flat.shape == (20, 30, 64) and np.abs(flat).max() < 1e-12


A, B, C = [0, 0, 4, 4], [10, 10, 14, 14], [20, 0, 24, 4]


def test_corloc_by_hand():
    """Overlaps 1, 1/2 (counts), 8/24, 0."""
    truth = np.array([A, A, A, A])
    guess = np.array([A, [0, 0, 4, 2], [0, 2, 4, 6], B])
    assert corloc(truth, guess) == 0.5 and corloc(truth, guess, threshold=0.51) == 0.25
    assert corloc(truth, guess, threshold=1 / 3) == 0.75
    assert math.isnan(corloc(np.zeros((0, 4)), np.zeros((0, 4))))
    with pytest.raises(ValueError, match="guess: expected 4 boxes, one for each true one, got 3"):
        corloc(truth, guess[:3])


@pytest.mark.parametrize(
    ("truth", "guess", "confidence", "expected"),
    [
        # ranks: right, wrong, right, wrong: recall 1/3 at precision 1, 2/3 at 2/3, no more
        ([[A], [A, B], []], [[A, C], [A, C], [A]], [[0.9, 0.8], [0.7, 0.1], [0.2]], (4 + 3 * 2 / 3) / 11),
        # of two boxes on one object the first counts; precision at a recall is the best at that or more
        ([[A]], [[A, A]], [[0.5, 0.9]], 1.0),
        ([[A, B]], [[A, A, B]], [[3, 2, 1]], (6 + 5 * 2 / 3) / 11),
        ([[A, B]], [[C, A, B]], [[3, 2, 1]], 2 / 3),
        # a box goes to the object that it overlaps most, the first of equals, as in the development kit; if that one
        # is taken, the box is wrong
        ([[A, [0, 1, 4, 5]]], [[A, [0, 0, 4, 5]]], [[2, 1]], 6 / 11),
        ([[A]], [[]], [[]], 0.0),
    ],
)
def test_average_precision_by_hand(truth, guess, confidence, expected):
    assert average_precision(truth, guess, confidence) == pytest.approx(expected)
    assert math.isnan(average_precision([[]], [[A]], [[1.0]]))
    for wrong, message in (
        (([[A]], [[A], [A]], [[1.0]]), "expected 1, one for each image, got 2, 1"),
        (([[A]], [[A]], [[1.0, 2.0]]), "image 0: expected 1 numbers"),
        (([[A]], [[A]], [[math.nan]]), "image 0"),
    ):
        with pytest.raises(ValueError, match=message):
            average_precision(*wrong)


@given(st.lists(st.tuples(st.booleans(), st.integers(-2, 2)), min_size=1, max_size=12), st.integers(0, 3))
@example([(True, 3), (True, 2), (True, 1)], 7)  # recall 0.3 is reached, although 0.3 > 3 * 0.1 in floating point
def test_one_box_an_image_against_the_definition(found, missed):
    """max over thresholds of the precision at recall >= r; ties are cut between, in their order."""
    truth = [[A]] * (len(found) + missed)
    guess = [[A] if right else [B] for right, _ in found] + [[]] * missed
    confidence = [[c] for _, c in found] + [[]] * missed
    order = sorted(range(len(found)), key=lambda i: (-found[i][1], i))
    hits = np.cumsum([found[i][0] for i in order])
    best = [max((n / k for k, n in enumerate(hits, 1) if 10 * n >= r * len(truth)), default=0.0) for r in range(11)]
    assert average_precision(truth, guess, confidence) == pytest.approx(sum(best) / 11)
    scaled = [[3 * c + 1 for c in each] for each in confidence]
    assert average_precision(truth, guess, scaled) == average_precision(truth, guess, confidence)
