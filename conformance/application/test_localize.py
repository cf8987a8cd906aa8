"""The command localize: files of scenes, models of several classes, what is reported of them, pictures, requests
that make no sense.
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from conformance.application.test_app import PNG, run
from conformance.damage import spoil
from diptych.commands import localize
from diptych.files import load_log, load_model
from diptych.files.localization import LocalizationImage, load_localization, save_localization
from reference.structures.boxes import iou

SMALL = ["--candidates", 24, "--directions", 4, "--scales", 2, "--size", 64, "--quiet"]


def told(backend, capsys, *arguments):
    """The report of a command that ends well."""
    status, text, error = run(backend, capsys, "localize", *arguments, "--json")
    assert status == 0, error
    return json.loads(text)


def spots(rng, n, classes=1, pixels=True):
    """Images whose object is told by one feature: it is the overlap with the true box, channel by class, beside
    noise.
    """
    for i in range(n):
        low = rng.integers(0, 8, (9, 2))
        boxes = np.concatenate([low, low + rng.integers(3, 8, low.shape)], axis=1)
        truth = boxes[rng.integers(9)]
        features = 0.05 * rng.normal(size=(9, 1, 1, classes + 1))
        features[:, 0, 0, i % classes] += iou(boxes, truth)
        page = rng.integers(0, 256, (16, 16)).astype(np.uint8) if pixels else None
        yield LocalizationImage(boxes, features, (16, 16), truth, i % classes, page)


@pytest.fixture
def data_file(tmp_path, rng):
    save_localization(tmp_path / "spots.boxes", spots(rng, 12, classes=2), ["left", "right"])
    return tmp_path / "spots.boxes"


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("optimizer", localize.MODELS["linear"])
def test_every_optimizer_finds_the_objects(backend, tmp_path, rng, capsys, optimizer):
    """The report is that of the saved weights: objective, CorLoc; and the objects of new images are found."""
    train, test, model_file = tmp_path / "a.boxes", tmp_path / "b.boxes", tmp_path / "m.npz"
    save_localization(train, spots(rng, 10), ["spot"])
    save_localization(test, spots(rng, 6), ["spot"])
    job = ["--optimizer", optimizer, "--lam", 0.01, "--save", model_file, "--epochs", 40]
    report = told(backend, capsys, "train", train, "--test", test, *job)
    (each,) = report["classes"]
    model, w, info = load_model(model_file, backend.module)
    assert info["class"] == "spot" and info["optimizer"] == optimizer and info["lam"] == 0.01
    data = load_localization(train)
    packed = model.pack(data.examples(np.arange(10)), data.truth)
    hinge = backend.StructuralHinge(model, packed, smoothing=backend.smoothings.TopK(10))
    mu = 0.1 if optimizer == "svrg" else 0.0  # it minimises the smoothed problem, the others the hinge itself
    value = hinge.value_and_gradient(w, None, mu)[0] + 0.005 * w @ w
    assert each["objective"] == pytest.approx(value, rel=1e-9) and len(each["history"]) >= 1
    right = iou(packed.boxes_of(model.predict(packed, None, w)), data.truth) >= 0.5
    assert each["train"]["corloc"] == np.mean(right) >= 0.9 and each["test"]["corloc"] >= 0.8
    assert each["test"]["average_precision"] >= 0.7 and each["objective"] < 0.5


@pytest.mark.parametrize("optimizer", localize.MODELS["two-layer"])
def test_two_layers(backend, tmp_path, rng, capsys, optimizer):
    """Objects told by whether a feature is near 1/2, which no linear score tells: two layers find them, and the
    saved weights are those reported.
    """
    images = []
    for _ in range(8):
        low = rng.integers(0, 30, (9, 2))
        boxes = np.concatenate([low, low + 2], axis=1) + 3 * np.arange(9)[:, None]  # none of them touches another one
        u = np.array([0.0, 0.05, 0.1, 0.15, 0.5, 0.85, 0.9, 0.95, 1.0])
        images.append(
            LocalizationImage(boxes, np.stack([np.ones(9), u], axis=1).reshape(9, 1, 1, 2), (60, 60), boxes[4], 0)
        )
    save_localization(tmp_path / "a.boxes", images, ["middle"])
    command = ["train", tmp_path / "a.boxes", "--lam", 1e-3, "--save", tmp_path / "m.npz"]
    linear = told(backend, capsys, *command)["classes"][0]
    assert linear["train"]["corloc"] == 0 and linear["objective"] >= 0.99
    more = ["--epochs", 8, "--eta", 10] if optimizer == "prox-linear" else ["--epochs", 150, "--step-size", 0.2]
    report = told(backend, capsys, *command, "--model", "two-layer", "--hidden", 4, "--optimizer", optimizer, *more)
    (each,) = report["classes"]
    assert each["train"]["corloc"] == 1 and each["objective"] < 0.95
    model, w, info = load_model(tmp_path / "m.npz", backend.module)
    data = load_localization(tmp_path / "a.boxes")
    hinge = backend.StructuralHinge(model, model.pack(data.examples(np.arange(8)), data.truth))
    assert each["objective"] == pytest.approx(hinge.value_and_gradient(w)[0] + 0.0005 * w @ w, rel=1e-9)
    assert model.hidden == 4 and info["model"] == "two-layer" and info["optimizer"] == optimizer


def test_classes_have_models_of_their_own(backend, data_file, capsys):
    """{class} in names; each model scores the images of its class; evaluate and predict say what the models do."""
    folder = data_file.parent
    job = ["--save", folder / "m-{class}.npz", "--log", folder / "{class}.log", "--lam", 0.01, "--tol", "1e-6"]
    report = told(backend, capsys, "train", data_file, *job)
    assert [each["class"] for each in report["classes"]] == ["left", "right"]
    models = [folder / f"m-{name}.npz" for name in ("left", "right")]
    assert all(each["success"] and each["images"] == 6 for each in report["classes"]) and all(
        p.exists() for p in models
    )
    assert load_log(folder / "left.log").job["class"] == "left"
    scores = told(backend, capsys, "evaluate", data_file, *models)
    assert [x["corloc"] for x in scores["models"]] == [each["train"]["corloc"] for each in report["classes"]]
    assert scores["mean"]["corloc"] == np.mean([x["corloc"] for x in scores["models"]])
    found = told(backend, capsys, "predict", data_file, models[1], "--top", 3)["boxes"]
    data = load_localization(data_file)
    _, w, _ = load_model(models[1], backend.module)
    assert [x["image"] for x in found] == np.repeat([1, 3, 5, 7, 9, 11], 3).tolist()
    for x in found:
        (at,) = np.flatnonzero((data.candidates(x["image"]) == x["box"]).all(axis=1))[:1]
        assert x["score"] == pytest.approx(float(data.features_of(x["image"])[at].ravel() @ w), rel=1e-5)
        assert x["overlap"] == pytest.approx(float(iou(x["box"], data.truth[x["image"]])))
    assert all(a["score"] >= b["score"] for a, b in itertools.pairwise(found) if a["image"] == b["image"])
    every = told(backend, capsys, "predict", data_file, models[1], "--all-images")["boxes"]
    assert [x["image"] for x in every] == list(range(12)) and every[0]["overlap"] is None
    status, text, _ = run(backend, capsys, "localize", "evaluate", data_file, *models)
    assert status == 0 and text.splitlines()[-1].startswith("mean")


def test_from_scenes_to_a_picture(backend, tmp_path, capsys):
    """make, train, show, as in docs/images.md, on few small scenes."""
    pytest.importorskip("matplotlib")
    train, test = tmp_path / "train.boxes", tmp_path / "test.boxes"
    made = told(backend, capsys, "make", train, "--images", 12, "--classes", "ag", *SMALL)
    assert made["features"] == [3, 3, 16] and made["images"] == 12 and made["best_overlap"] > 0.7
    told(backend, capsys, "make", test, "--images", 6, "--classes", "ag", "--test", *SMALL)
    report = told(backend, capsys, "train", train, "--test", test, "--save", tmp_path / "{class}.npz", "--epochs", 10)
    assert all(each["train"]["corloc"] >= 0.5 for each in report["classes"])
    models = [tmp_path / "a.npz", tmp_path / "g.npz"]
    shown = told(backend, capsys, "draw", test, *models, "--plot", tmp_path / "p.png", "--limit", 4)
    assert len(shown["images"]) == 4 and shown["images"][0] == 0 and shown["images"][-1] == 5
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)
    found = told(backend, capsys, "predict", test, *models)["boxes"]
    assert shown["right"] == sum(x["overlap"] >= 0.5 for x in found if x["image"] in shown["images"])
    shown = told(backend, capsys, "draw", test, "--plot", tmp_path / "q.png")
    assert shown["right"] is None and len(shown["images"]) == 6


def test_images_without_answers(backend, tmp_path, rng, data_file, capsys):
    """Boxes are found in images whose objects are not known."""
    plain = [image._replace(truth=None, label=None) for image in spots(rng, 3, classes=2)]
    new, model = tmp_path / "new.boxes", tmp_path / "m.npz"
    save_localization(new, plain, ["left", "right"])
    told(backend, capsys, "train", data_file, "--class", "left", "--save", model)
    found = told(backend, capsys, "predict", new, model)["boxes"]
    assert [x["image"] for x in found] == [0, 1, 2] and all(x["overlap"] is None for x in found)
    pytest.importorskip("matplotlib")
    assert told(backend, capsys, "draw", new, model, "--plot", tmp_path / "p.png")["right"] is None


def test_classes_that_a_run_did_not_come_to_begin_anew(backend, data_file, capsys):
    """Of several classes some have a checkpoint to go on from."""
    folder = data_file.parent
    job = ["--optimizer", "sgd", "--step-size", 0.1, "--epochs", 4, "--checkpoint", folder / "{class}.run"]
    whole = told(backend, capsys, "train", data_file, *job)["classes"]
    (folder / "right.run").unlink()
    again = told(backend, capsys, "train", data_file, *job, "--resume", folder / "{class}.run")["classes"]
    assert [each["objective"] for each in again] == [each["objective"] for each in whole]


def test_true_boxes_that_no_candidate_touches(backend, tmp_path, rng, capsys):
    """They are misses, and a prediction needs no truth."""
    far, good = tmp_path / "far.boxes", tmp_path / "good.boxes"
    images = [i._replace(boxes=np.minimum(i.boxes, 13), truth=np.array([14, 14, 16, 16])) for i in spots(rng, 3)]
    images = [i._replace(boxes=np.concatenate([i.boxes[:, :2] // 2, 9 + i.boxes[:, 2:] // 4], axis=1)) for i in images]
    save_localization(far, images, ["left"])
    save_localization(good, spots(rng, 6), ["left"])
    model = tmp_path / "m.npz"
    report = told(backend, capsys, "train", good, "--test", far, "--save", model)
    assert report["classes"][0]["test"]["corloc"] == 0.0
    assert told(backend, capsys, "evaluate", far, model)["mean"]["corloc"] == 0.0
    assert all(each["overlap"] == 0.0 for each in told(backend, capsys, "predict", far, model)["boxes"])


def test_no_weight_of_the_norm_needs_no_tolerance(backend, tmp_path, rng, capsys):
    save_localization(tmp_path / "a.boxes", spots(rng, 6), ["left"])
    report = told(backend, capsys, "train", tmp_path / "a.boxes", "--optimizer", "svrg", "--lam", 0, "--epochs", 2)
    assert report["classes"][0]["job"]["tol"] is None and report["classes"][0]["success"]


def test_classes_without_images(backend, tmp_path, rng, capsys):
    """They are passed over."""
    some = tmp_path / "some.boxes"
    save_localization(some, (image._replace(label=1) for image in spots(rng, 4)), ["left", "right", "top"])
    assert [each["class"] for each in told(backend, capsys, "train", some)["classes"]] == ["right"]


def test_curves_tell_classes_apart(backend, data_file, capsys):
    """Logs of one class are drawn together, those of two are not of one problem."""
    folder = data_file.parent
    report = told(backend, capsys, "train", data_file, "--log", folder / "{class}.log")
    assert [each["job"]["lam"] for each in report["classes"]] == [10 / 6, 10 / 6]  # lam = 10/n, as in Figure 3
    told(backend, capsys, "train", data_file, "--class", "left", "--optimizer", "sgd", "--log", folder / "sgd.log")
    status, text, _ = run(backend, capsys, "curves", folder / "left.log", folder / "sgd.log")
    assert status == 0 and "above bound" in text
    status, _, error = run(backend, capsys, "curves", folder / "left.log", folder / "right.log")
    assert status == 2 and "different problems: class left and right" in error


def test_images_without_pixels_are_not_drawn(backend, tmp_path, rng, capsys):
    pytest.importorskip("matplotlib")
    other = tmp_path / "other.boxes"
    save_localization(other, spots(rng, 2, pixels=False), ["left"])
    status, _, error = run(backend, capsys, "localize", "draw", other, "--plot", tmp_path / "p.png")
    assert status == 2 and "other.boxes: no field pixels" in error


def test_wrong_images_are_named(backend, data_file, capsys):
    """By their numbers in the file, not within a class."""
    spoil(data_file, "features[31] = np.nan")
    status, _, error = run(backend, capsys, "localize", "train", data_file, "--class", "right")
    assert status == 2 and "spots.boxes: image 3: features: expected finite numbers, candidate 4" in error


def test_find_orders_by_score_and_then_by_number(backend, rng):
    """Ties go to the lower number, as the oracle's do; fewer than k where there are fewer candidates."""
    model = backend.CandidateModel((2,))
    boxes = np.array([[0, 0, 1 + k, 1] for k in range(4)])
    data = model.pack([(boxes, np.array([[1.0, 0], [2, 0], [2, 0], [0, 1]])), (boxes[:2], np.eye(2))])
    found = localize.find(model, data, np.array([1.0, 0.5]), 3)
    assert found[0].boxes.tolist() == boxes[[1, 2, 0]].tolist() and found[0].scores.tolist() == [2, 2, 1]
    assert found[1].boxes.tolist() == boxes[:2].tolist()


def test_judged_by_hand():
    found = [
        localize.Found(np.array([[0, 0, 4, 4], [0, 0, 1, 1]]), np.array([0.2, 0.1])),
        localize.Found(np.array([[0, 0, 4, 1]]), np.array([0.9])),
    ]
    scores = localize.judged(np.array([[0, 0, 4, 4], [0, 0, 4, 4]]), found)
    assert scores == {"corloc": 0.5, "average_precision": pytest.approx(6 / 11 / 2), "mean_overlap": 0.625}
