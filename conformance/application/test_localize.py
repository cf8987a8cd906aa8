"""Images with candidate boxes: files, made scenes, features, scores, and the command ``localize``."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.application.test_app import PNG
from conformance.damage import spoil
from conformance.specimens.pages import entries
from diptych.box_features import box_features, filter_responses
from diptych.commands import localize
from diptych.files import load_log, load_model, save_model
from diptych.files.localization import ALIGN, MAGIC, LocalizationImage, load_localization, save_localization
from diptych.metrics import average_precision, corloc
from diptych.scenes import SMALLEST, make_scenes
from reference.structures.boxes import iou


def images(rng):
    """Images of several sizes and numbers of candidates."""
    for i in range(3):
        low, size = rng.integers(0, 5, (4 + i, 2)), (10 + i, 12)
        boxes = np.concatenate([low, low + rng.integers(1, 6, low.shape)], axis=1)
        page, features = rng.integers(0, 256, size).astype(np.uint8), rng.normal(size=(len(boxes), 2, 2, 3))
        yield LocalizationImage(boxes, features.astype(np.float32), size, [1, 2, 4, 5], np.int32(i % 2), page)


@pytest.fixture
def stored(tmp_path):
    """A function that writes images to ``a.boxes``, and reads them."""

    def store(images, classes=("a", "b"), info=None):
        save_localization(tmp_path / "a.boxes", images, classes, info)
        return load_localization(tmp_path / "a.boxes")

    return store


@pytest.mark.parametrize("without", [(), ("pixels",), ("truth", "label")])
def test_read_as_written(stored, rng, without):
    """Of images that lie one after another the features are the file's own; of others copies."""
    given = [image._replace(**dict.fromkeys(without)) for image in images(rng)]
    found = stored(iter(given), ["cat", "Hündin"], {"made": "by hand"})
    assert found.classes == ("cat", "Hündin") and found.info == {"made": "by hand"} and found.n == 3
    assert found.features.dtype == np.float32 and found.features.shape == (15, 2, 2, 3)
    assert "3 images, 15 candidates, features 2 x 2 x 3" in repr(found)
    for i, image in enumerate(given):
        assert np.array_equal(found.candidates(i), image.boxes) and np.array_equal(found.features_of(i), image.features)
        assert tuple(found.sizes[i]) == image.size
        assert found.picture(i) is None if "pixels" in without else np.array_equal(found.picture(i), image.pixels)
    for some in ([0, 1], [1, 2], [2], [2, 0], [0, 2], []):
        X = found.examples(np.array(some, np.int64))
        for k, i in enumerate(some):
            assert np.array_equal(X.boxes[X.offsets[k] : X.offsets[k + 1]], given[i].boxes)
            assert np.array_equal(X.features[X.offsets[k] : X.offsets[k + 1]], given[i].features)
        assert X.offsets[-1] == len(X.boxes) == len(X.features)
        assert np.shares_memory(X.features, found.features) == (some in ([0, 1], [1, 2], [2]))
    if "truth" in without:
        assert found.truth is None and found.labels is None
        for ask, message in ((found.best_candidates, "truth"), (lambda: found.of_class("cat"), "labels")):
            with pytest.raises(ValueError, match=f"a.boxes: no field {message}"):
                ask()
    else:
        assert found.truth.tolist() == [image.truth for image in given] and found.labels.tolist() == [0, 1, 0]
        assert found.of_class("cat").tolist() == [0, 2]
        with pytest.raises(ValueError, match="no class 'dog'; it has cat, Hündin"):
            found.of_class("dog")
        boxes = np.array([[0, 0, 4, 4], [1, 1, 4, 4], [1, 1, 4, 4], [4, 4, 8, 8]])  # the first of the highest overlap
        found = stored([LocalizationImage(boxes, np.ones((4, 1, 1, 1)), (9, 9), [1, 1, 4, 5], 0)], ["a"])
        assert found.best_candidates().tolist() == [1] and found.overlaps(0).tolist() == [9 / 19, 0.75, 0.75, 0.0]


def test_features_are_mapped_and_checked_when_they_are_needed(stored, tmp_path, rng):
    """Other readers may rely on two lines, then arrays at multiples of 64 bytes, which are not read."""
    path, given = tmp_path / "a.boxes", list(images(rng))
    found, content = stored(given), path.read_bytes()
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
    given, path = {"images": list(images(rng)), "classes": ["a", "b"], "info": None}, tmp_path / "a.boxes"
    exec(entry, {"np": np}, given)
    path.write_bytes(b"older")
    kind = TypeError if message.startswith("TypeError: ") else ValueError
    with pytest.raises(kind, match=message.removeprefix("TypeError: ")):
        save_localization(path, *given.values())
    assert path.read_bytes() == b"older" and list(tmp_path.iterdir()) == [path]


SMALL = {"candidates": 30, "directions": 4, "scales": 2, "size": 64}


def test_scenes_are_what_they_promise():
    """As many of each class; different boxes, some on the object, most not; the object is dark, the box tight."""
    found = list(make_scenes(7, classes="gae", **SMALL))
    assert [image.label for image in found] == [0, 0, 0, 1, 1, 2, 2]
    for image in found:
        (top, left, bottom, right), overlap = image.truth, iou(image.boxes, image.truth)
        assert image.boxes.shape == (30, 4) and len(set(map(tuple, image.boxes.tolist()))) == 30
        assert image.boxes.min() >= 0 and image.boxes.max() <= 64 and image.pixels.shape == (64, 64)
        assert (image.boxes[:, 2:] - image.boxes[:, :2]).min() >= SMALLEST
        assert image.features.shape == (30, 3, 3, 16) and image.features.dtype == np.float32
        assert overlap.max() >= 0.5 and np.mean(overlap >= 0.5) <= 0.3
        assert 0 <= top < bottom <= 64 and 0 <= left < right <= 64
        inside, page = image.pixels[top:bottom, left:right], np.median(image.pixels)
        assert inside.min() < page - 40
        assert all(edge.min() < page - 20 for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


def test_scenes_are_drawn_by_rng():
    """The same again, whatever n; others by another rng, for another class and for the test."""
    three, six = (list(make_scenes(n, classes="ae", rng=3, **SMALL)) for n in (3, 6))
    for a, b in ((three[0], six[0]), (three[1], six[1]), (three[2], six[3])):
        assert np.array_equal(a.pixels, b.pixels) and np.array_equal(a.features, b.features)
    others = [next(make_scenes(1, classes="ae", **how, **SMALL)) for how in ({"rng": 4}, {"rng": 3, "test": True})]
    assert len({image.pixels.tobytes() for image in (six[0], six[1], six[3], *others)}) == 5


@pytest.mark.parametrize(("entry", "message"), entries("wrong_scenes.txt"))
def test_wrong_requests_are_refused_at_once(entry, message):
    with pytest.raises(ValueError, match=message):
        eval(f"make_scenes({entry})")


def test_cells_are_means_of_their_pixels(rng):
    """Of mean square 1; parts of pixels count by their share, as in an image that is enlarged threefold."""
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
    """A dark stroke answers in the channel across it; by a quarter of a turn channels move by as much."""
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
    truth, guess = np.array([A, A, A, A]), np.array([A, [0, 0, 4, 2], [0, 2, 4, 6], B])
    assert [corloc(truth, guess, threshold=t) for t in (0.5, 0.51, 1 / 3)] == [0.5, 0.25, 0.75]
    assert corloc(truth, guess) == 0.5 and math.isnan(corloc(np.zeros((0, 4)), np.zeros((0, 4))))
    with pytest.raises(ValueError, match="guess: expected 4 boxes, one for each true one, got 3"):
        corloc(truth, guess[:3])


@pytest.mark.parametrize(("entry", "expected"), entries("average_precision.txt"))
def test_average_precision_by_hand(entry, expected):
    """A message stands for what does not fit."""
    scored = eval(entry, globals())
    if expected[0].isalpha():
        with pytest.raises(ValueError, match=expected):
            average_precision(*scored)
    else:
        assert average_precision(*scored) == pytest.approx(eval(expected), nan_ok=True)


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


@pytest.fixture
def told(cli):
    """The report of a command ``localize`` that ends well."""
    return lambda words, *more: cli.reported(f"localize {words}", *more)


def spots(rng, n, classes=1, pixels=True):
    """Images whose object is told by a feature, the overlap with the true box, channel by class, beside noise."""
    for i in range(n):
        low = rng.integers(0, 8, (9, 2))
        boxes = np.concatenate([low, low + rng.integers(3, 8, low.shape)], axis=1)
        truth = boxes[rng.integers(9)]
        features = 0.05 * rng.normal(size=(9, 1, 1, classes + 1))
        features[:, 0, 0, i % classes] += iou(boxes, truth)
        page = rng.integers(0, 256, (16, 16)).astype(np.uint8) if pixels else None
        yield LocalizationImage(boxes, features, (16, 16), truth, i % classes, page)


@pytest.fixture
def two_classes(tmp_path, rng):
    save_localization(tmp_path / "spots.boxes", spots(rng, 12, classes=2), ["left", "right"])
    return tmp_path / "spots.boxes"


KINDS = [(kind, optimizer) for kind, several in localize.MODELS.items() for optimizer in several]


@pytest.mark.parametrize(("kind", "optimizer"), KINDS)
def test_every_optimizer_finds_the_objects(backend, two_classes, told, kind, optimizer):
    """The report is that of the saved weights."""
    saved = two_classes.parent / "m.npz"
    words = ["--model", kind, *(["--hidden", 4] if kind == "two-layer" else []), "--optimizer", optimizer]
    words += ["--eta", 10] if optimizer == "prox-linear" else ["--step-size", 0.2] if kind == "two-layer" else []
    words += ["--class", "left", "--lam", 0.01, "--epochs", 40, "--save", saved]
    (each,) = told("train", two_classes, *words)["classes"]
    model, w, info = load_model(saved, backend.module)
    data, images = load_localization(two_classes), np.arange(0, 12, 2)
    packed = model.pack(data.examples(images), data.truth[images])
    hinge = backend.StructuralHinge(model, packed, smoothing=backend.smoothings.TopK(10))
    mu = 0.1 if optimizer == "svrg" else 0.0  # it minimises the smoothed problem, the others the hinge itself
    assert each["objective"] == pytest.approx(hinge.value_and_gradient(w, None, mu)[0] + 0.005 * w @ w, rel=1e-9)
    assert each["train"]["corloc"] >= 0.8 and len(each["history"]) >= 1
    assert info["class"] == "left" and info["optimizer"] == optimizer and info["lam"] == 0.01
    assert kind == "linear" or (model.hidden == 4 and info["model"] == kind)


def test_classes_have_models_and_logs_of_their_own(backend, two_classes, cli, told):
    """By {class} in names; evaluate and predict say what the models do; only logs of one class are compared."""
    report = told("train spots.boxes --save m-{class}.npz --log {class}.log --tol 1e-6")
    assert [each["class"] for each in report["classes"]] == ["left", "right"]
    assert all(each["success"] and each["images"] == 6 for each in report["classes"])
    assert [each["job"]["lam"] for each in report["classes"]] == [10 / 6, 10 / 6]  # lam = 10/n, as in Figure 3
    assert load_log("left.log").job["class"] == "left"
    scores = told("evaluate spots.boxes m-left.npz m-right.npz")
    assert [x["corloc"] for x in scores["models"]] == [each["train"]["corloc"] for each in report["classes"]]
    assert scores["mean"]["corloc"] == np.mean([x["corloc"] for x in scores["models"]])
    found = told("predict spots.boxes m-right.npz --top 3")["boxes"]
    data, (_, w, _) = load_localization(two_classes), load_model("m-right.npz", backend.module)
    assert [x["image"] for x in found] == np.repeat([1, 3, 5, 7, 9, 11], 3).tolist()
    for x in found:
        (at,) = np.flatnonzero((data.candidates(x["image"]) == x["box"]).all(axis=1))[:1]
        assert x["score"] == pytest.approx(float(data.features_of(x["image"])[at].ravel() @ w), rel=1e-5)
        assert x["overlap"] == pytest.approx(float(iou(x["box"], data.truth[x["image"]])))
    every = told("predict spots.boxes m-right.npz --all-images")["boxes"]
    assert [x["image"] for x in every] == list(range(12)) and every[0]["overlap"] is None
    last = cli.printed("localize evaluate spots.boxes m-left.npz m-right.npz").splitlines()[-1]
    told("train spots.boxes --class left --optimizer sgd --log sgd.log")
    assert last.startswith("mean") and "above bound" in cli.printed("curves left.log sgd.log")
    assert "different problems: class left and right" in cli.refused("curves left.log right.log")


def test_predictions_are_ordered_by_score_and_then_by_number(tmp_path, backend, told):
    """Ties go to the lower number. Evaluated is the first box of an image: overlaps are 2/4, right, and 1/4."""
    boxes, x = np.array([[0, 0, 1 + k, 1] for k in range(4)]), np.array([[1.0, 0], [2, 0], [2, 0], [0, 1]])
    images = [
        LocalizationImage(boxes[: len(each)], each.reshape(-1, 1, 1, 2), (4, 4), boxes[3], 0) for each in (x, np.eye(2))
    ]
    save_localization(tmp_path / "a.boxes", images, ["a"])
    save_model(tmp_path / "m.npz", backend.CandidateModel((1, 1, 2)), np.array([1.0, 0.5]), {"class": "a"})
    found = told("predict", tmp_path / "a.boxes", tmp_path / "m.npz", "--top", 3)["boxes"]
    assert [each["box"] for each in found] == boxes[[1, 2, 0, 0, 1]].tolist()
    assert [each["score"] for each in found] == [2, 2, 1, 1, 0.5]
    (scores,) = told("evaluate", tmp_path / "a.boxes", tmp_path / "m.npz")["models"]
    assert scores["corloc"] == 0.5 and scores["mean_overlap"] == 0.375
    assert scores["average_precision"] == pytest.approx(6 / 11)


def test_from_scenes_to_a_picture(told):
    """make, train, show, as in docs/images.md, on few small scenes."""
    pytest.importorskip("matplotlib")
    few = "--candidates 24 --directions 4 --scales 2 --size 64 --classes ag --quiet"
    made = told(f"make train.boxes --images 12 {few}")
    assert made["features"] == [3, 3, 16] and made["images"] == 12 and made["best_overlap"] > 0.7
    told(f"make test.boxes --images 6 --test {few}")
    report = told("train train.boxes --test test.boxes --save {class}.npz --epochs 10")
    assert all(each["train"]["corloc"] >= 0.5 for each in report["classes"])
    shown = told("draw test.boxes a.npz g.npz --plot p.png --limit 4")
    assert len(shown["images"]) == 4 and shown["images"][0] == 0 and shown["images"][-1] == 5
    found = told("predict test.boxes a.npz g.npz")["boxes"]
    assert shown["right"] == sum(x["overlap"] >= 0.5 for x in found if x["image"] in shown["images"])
    shown = told("draw test.boxes --plot q.png")
    assert shown["right"] is None and len(shown["images"]) == 6
    assert all(Path(name).read_bytes().startswith(PNG) for name in ("p.png", "q.png"))


def test_classes_that_a_run_did_not_come_to_begin_anew(two_classes, told):
    """Of several classes some have a checkpoint to go on from."""
    job = "train spots.boxes --optimizer sgd --step-size 0.1 --epochs 4 --checkpoint {class}.run"
    whole = told(job)["classes"]
    Path("right.run").unlink()
    again = told(f"{job} --resume {{class}}.run")["classes"]
    assert [each["objective"] for each in again] == [each["objective"] for each in whole]


def test_images_that_lack_something(tmp_path, rng, cli, told):
    """Without answers boxes are found; without candidates near they are missed; without images there is no score."""
    good, new, far, top = (tmp_path / f"{name}.boxes" for name in ("good", "new", "far", "top"))
    for path, images in (
        (good, spots(rng, 6)),
        (new, (image._replace(truth=None, label=None) for image in spots(rng, 3))),
        (far, (image._replace(boxes=image.boxes // 2, truth=np.array([14, 14, 16, 16])) for image in spots(rng, 3))),
        (top, (image._replace(label=2) for image in spots(rng, 4, pixels=False))),
    ):
        save_localization(path, images, ["left", "right", "top"])
    model, picture = tmp_path / "m.npz", tmp_path / "p.png"
    report = told("train", good, "--test", far, "--save", model)
    assert [each["class"] for each in report["classes"]] == ["left"] and report["classes"][0]["test"]["corloc"] == 0.0
    assert told("evaluate", far, model)["mean"]["corloc"] == 0.0
    assert all(each["overlap"] == 0.0 for each in told("predict", far, model)["boxes"])
    found = told("predict", new, model)["boxes"]
    assert [x["image"] for x in found] == [0, 1, 2] and all(x["overlap"] is None for x in found)
    assert [each["class"] for each in told("train", top)["classes"]] == ["top"]
    words = ["train", good, "--class", "left", "--test", top]
    assert told(*words)["classes"][0]["test"] is None and "nan" not in cli.printed("localize", *words)
    pytest.importorskip("matplotlib")
    assert told("draw", new, model, "--plot", picture)["right"] is None
    assert "top.boxes: no field pixels" in cli.refused("localize", "draw", top, "--plot", picture)


def test_no_weight_of_the_norm_needs_no_tolerance_and_wrong_images_are_named(two_classes, cli, told):
    """By their numbers in the file, not within a class."""
    (report,) = told("train spots.boxes --class left --optimizer svrg --lam 0 --epochs 2")["classes"]
    assert report["job"]["tol"] is None and report["success"]
    spoil(two_classes, "features[31] = np.nan")
    error = cli.refused("localize train spots.boxes --class right")
    assert "spots.boxes: image 3: features: expected finite numbers, candidate 4" in error
