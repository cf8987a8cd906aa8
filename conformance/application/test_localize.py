"""The command localize: files of scenes, models of several classes, what is reported of them, pictures."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from conformance.application.test_app import PNG
from conformance.damage import spoil
from diptych.commands import localize_jobs
from diptych.files import load_log, load_model, save_model
from diptych.files.localization import load_localization
from diptych.files.localization_writer import LocalizationImage, save_localization
from reference.structures.boxes import iou

SMALL = ["--candidates", 24, "--directions", 4, "--scales", 2, "--size", 64, "--quiet"]


@pytest.fixture
def told(cli):
    """The report of a command ``localize`` that ends well."""
    return lambda *words: cli.reported("localize", *words)


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
def two_classes(tmp_path, rng):
    save_localization(tmp_path / "spots.boxes", spots(rng, 12, classes=2), ["left", "right"])
    return tmp_path / "spots.boxes"


KINDS = [(kind, optimizer) for kind, several in localize_jobs.MODELS.items() for optimizer in several]


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
    """{class} in names; each model scores the images of its class; evaluate and predict say what the models do. Logs
    of one class are drawn together, those of two are not of one problem.
    """
    folder = two_classes.parent
    job = ["--save", folder / "m-{class}.npz", "--log", folder / "{class}.log", "--tol", "1e-6"]
    report = told("train", two_classes, *job)
    models = [folder / f"m-{name}.npz" for name in ("left", "right")]
    assert [each["class"] for each in report["classes"]] == ["left", "right"] and all(p.exists() for p in models)
    assert all(each["success"] and each["images"] == 6 for each in report["classes"])
    assert [each["job"]["lam"] for each in report["classes"]] == [10 / 6, 10 / 6]  # lam = 10/n, as in Figure 3
    assert load_log(folder / "left.log").job["class"] == "left"
    scores = told("evaluate", two_classes, *models)
    assert [x["corloc"] for x in scores["models"]] == [each["train"]["corloc"] for each in report["classes"]]
    assert scores["mean"]["corloc"] == np.mean([x["corloc"] for x in scores["models"]])
    found = told("predict", two_classes, models[1], "--top", 3)["boxes"]
    data, (_, w, _) = load_localization(two_classes), load_model(models[1], backend.module)
    assert [x["image"] for x in found] == np.repeat([1, 3, 5, 7, 9, 11], 3).tolist()
    for x in found:
        (at,) = np.flatnonzero((data.candidates(x["image"]) == x["box"]).all(axis=1))[:1]
        assert x["score"] == pytest.approx(float(data.features_of(x["image"])[at].ravel() @ w), rel=1e-5)
        assert x["overlap"] == pytest.approx(float(iou(x["box"], data.truth[x["image"]])))
    assert all(a["score"] >= b["score"] for a, b in itertools.pairwise(found) if a["image"] == b["image"])
    every = told("predict", two_classes, models[1], "--all-images")["boxes"]
    assert [x["image"] for x in every] == list(range(12)) and every[0]["overlap"] is None
    assert cli.printed("localize", "evaluate", two_classes, *models).splitlines()[-1].startswith("mean")
    told("train", two_classes, "--class", "left", "--optimizer", "sgd", "--log", folder / "sgd.log")
    assert "above bound" in cli.printed("curves", folder / "left.log", folder / "sgd.log")
    error = cli.refused("curves", folder / "left.log", folder / "right.log")
    assert "different problems: class left and right" in error


def test_predictions_are_ordered_by_score_and_then_by_number(tmp_path, backend, told):
    """Ties go to the lower number, as the oracle's do; fewer boxes than asked for where there are fewer candidates.
    What is evaluated is the first box of an image: here they overlap the true one by 2/4, which is right, and 1/4.
    """
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


def test_from_scenes_to_a_picture(tmp_path, told):
    """make, train, show, as in docs/images.md, on few small scenes."""
    pytest.importorskip("matplotlib")
    train, test = tmp_path / "train.boxes", tmp_path / "test.boxes"
    made = told("make", train, "--images", 12, "--classes", "ag", *SMALL)
    assert made["features"] == [3, 3, 16] and made["images"] == 12 and made["best_overlap"] > 0.7
    told("make", test, "--images", 6, "--classes", "ag", "--test", *SMALL)
    report = told("train", train, "--test", test, "--save", tmp_path / "{class}.npz", "--epochs", 10)
    assert all(each["train"]["corloc"] >= 0.5 for each in report["classes"])
    models = [tmp_path / "a.npz", tmp_path / "g.npz"]
    shown = told("draw", test, *models, "--plot", tmp_path / "p.png", "--limit", 4)
    assert len(shown["images"]) == 4 and shown["images"][0] == 0 and shown["images"][-1] == 5
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)
    found = told("predict", test, *models)["boxes"]
    assert shown["right"] == sum(x["overlap"] >= 0.5 for x in found if x["image"] in shown["images"])
    shown = told("draw", test, "--plot", tmp_path / "q.png")
    assert shown["right"] is None and len(shown["images"]) == 6


def test_classes_that_a_run_did_not_come_to_begin_anew(two_classes, told):
    """Of several classes some have a checkpoint to go on from."""
    folder = two_classes.parent
    job = ["--optimizer", "sgd", "--step-size", 0.1, "--epochs", 4, "--checkpoint", folder / "{class}.run"]
    whole = told("train", two_classes, *job)["classes"]
    (folder / "right.run").unlink()
    again = told("train", two_classes, *job, "--resume", folder / "{class}.run")["classes"]
    assert [each["objective"] for each in again] == [each["objective"] for each in whole]


def test_images_that_lack_something(tmp_path, rng, cli, told):
    """Boxes are found where objects are not known. True boxes that no candidate touches are misses. Classes without
    images are passed over; without test images they have no scores, neither nan nor an error.
    """
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


def test_no_weight_of_the_norm_needs_no_tolerance(two_classes, told):
    report = told("train", two_classes, "--class", "left", "--optimizer", "svrg", "--lam", 0, "--epochs", 2)
    assert report["classes"][0]["job"]["tol"] is None and report["classes"][0]["success"]


def test_wrong_images_are_named(two_classes, cli):
    """By their numbers in the file, not within a class."""
    spoil(two_classes, "features[31] = np.nan")
    error = cli.refused("localize", "train", two_classes, "--class", "right")
    assert "spots.boxes: image 3: features: expected finite numbers, candidate 4" in error
