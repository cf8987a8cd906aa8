"""Files of images with candidate boxes: read as written, mapped and not read, refused by image and field."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conformance.damage import spoil
from conformance.specimens.pages import entries
from diptych.files.localization import ALIGN, MAGIC, LocalizationImage, load_localization, save_localization


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


def test_features_are_mapped(tmp_path, rng):
    """What the format promises to other readers: two lines, arrays at multiples of 64 bytes; features are not read,
    and cannot be written.
    """
    path = tmp_path / "a.boxes"
    given = list(images(rng))
    save_localization(path, given, ["a", "b"])
    found = load_localization(path)
    assert isinstance(found.features, np.memmap) and not found.features.flags.writeable
    content = path.read_bytes()
    assert content.startswith(MAGIC)
    start = content.index(b"\n", len(MAGIC)) + 1
    header = json.loads(content[len(MAGIC) : start])
    assert start % ALIGN == 0 and all(array["offset"] % ALIGN == 0 for array in header["arrays"].values())
    boxes = header["arrays"]["boxes"]
    raw = np.frombuffer(content, "<i4", 15 * 4, start + boxes["offset"]).reshape(boxes["shape"])
    assert np.array_equal(raw, np.concatenate([image.boxes for image in given]))


def test_best_candidates(tmp_path, rng):
    """The highest intersection over union, the first of equals."""
    boxes = np.array([[0, 0, 4, 4], [1, 1, 4, 4], [1, 1, 4, 4], [4, 4, 8, 8]])
    image = LocalizationImage(boxes, np.ones((4, 1, 1, 1)), (9, 9), [1, 1, 4, 5], 0)
    save_localization(tmp_path / "a.boxes", [image], ["a"])
    found = load_localization(tmp_path / "a.boxes")
    assert found.best_candidates().tolist() == [1] and found.overlaps(0).tolist() == [9 / 19, 0.75, 0.75, 0.0]


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
    """Images to find objects in: no true boxes, no classes; who asks for them is told."""
    given = [image._replace(truth=None, label=None) for image in images(rng)]
    save_localization(tmp_path / "a.boxes", given, ["a", "b"])
    found = load_localization(tmp_path / "a.boxes")
    assert found.n == 3 and found.truth is None and found.labels is None
    with pytest.raises(ValueError, match="a.boxes: no field truth"):
        found.best_candidates()
    with pytest.raises(ValueError, match="a.boxes: no field labels"):
        found.of_class("a")


@pytest.mark.parametrize("some", [[0, 1], [1, 2], [2], [2, 0], [0, 2], []])
def test_examples_are_those_of_the_images(tmp_path, rng, some):
    """Of images that lie one after another the features are the file's own; of others copies."""
    given = list(images(rng))
    save_localization(tmp_path / "a.boxes", given, ["a", "b"])
    found = load_localization(tmp_path / "a.boxes")
    X = found.examples(np.array(some, np.int64))
    for k, i in enumerate(some):
        assert np.array_equal(X.boxes[X.offsets[k] : X.offsets[k + 1]], given[i].boxes)
        assert np.array_equal(X.features[X.offsets[k] : X.offsets[k + 1]], given[i].features)
    assert X.offsets[-1] == len(X.boxes) == len(X.features)
    assert np.shares_memory(X.features, found.features) == (some in ([0, 1], [1, 2], [2]))


def test_features_are_checked_when_asked_for(tmp_path, rng):
    path = tmp_path / "a.boxes"
    save_localization(path, images(rng), ["a", "b"])
    spoil(path, "features[6, 0, 1, 2] = np.inf")
    found = load_localization(path)
    found.features_of(0)
    with pytest.raises(ValueError, match="image 1: features: expected finite numbers, candidate 2 has others"):
        found.features_of(1)
