"""What ``localize`` does with one class: pack its images, train a model of it, find its boxes and judge them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from diptych.files.localization import Localization
from diptych.metrics import average_precision, corloc
from reference.arrays import host
from reference.structures.boxes import iou
from reference.training.result import Callback, Result

__all__ = ["EPOCHS", "KINDS", "LAM", "MODELS", "OPTIONS", "SCHEDULES", "Found", "find", "job_of", "judged", "new_model", "optimize", "packed"]  # fmt: skip

MODELS = {
    "linear": ("bcfw", "sgd", "svrg", "casimir-svrg-const", "casimir-svrg-adapt"),
    "two-layer": ("prox-linear", "sgd"),
}  # and the optimisers of each, the default first
KINDS = {"linear": "CandidateModel", "two-layer": "TwoLayerModel"}
OPTIONS = {
    "bcfw": ("tol",),
    "sgd": ("step_size", "schedule"),
    "svrg": ("k", "mu", "step_size", "tol"),
    "casimir-svrg-const": ("k", "mu", "step_size", "tol"),
    "casimir-svrg-adapt": ("k", "mu", "step_size", "tol"),
    "prox-linear": ("k", "mu", "eta", "budget", "mu_schedule"),
}
EPOCHS = {"bcfw": 50, "sgd": 30, "svrg": 30, "casimir-svrg-const": 30, "casimir-svrg-adapt": 30, "prox-linear": 20}
LAM = {"linear": 10.0, "two-layer": 1.0}  # over the number of images: Figures 3 and 4
MU = {"svrg": 0.1, "casimir-svrg-const": 0.1, "casimir-svrg-adapt": 10.0, "prox-linear": 1.0}
K = 10  # section 7.3
TOL = 0.01
STEP_SIZE = 3e-3  # of sgd on two layers
SCHEDULES = {"constant": "Constant", "inverse-sqrt": "InverseSqrt", "inverse-time": "InverseTime"}


class Found(NamedTuple):
    """The best boxes (k, 4) of an image with their scores (k,), best first."""

    boxes: np.ndarray
    scores: np.ndarray


def job_of(kind: str, optimizer: str | None, given: dict[str, Any], n: int) -> dict[str, Any]:
    """The settings of a run on n images; ValueError for an optimiser that the model does not have, or an option that has no effect."""
    optimizer = optimizer or MODELS[kind][0]
    if optimizer not in MODELS[kind]:
        raise ValueError(f"--optimizer: a {kind} model is trained by {' or '.join(MODELS[kind])}, got {optimizer}")
    for name in sorted({name for names in OPTIONS.values() for name in names} - set(OPTIONS[optimizer])):
        if given[name] is not None:
            raise ValueError(f"--{name.replace('_', '-')} has no effect with --optimizer {optimizer}")
    if given["schedule"] is not None and given["step_size"] is None and kind == "linear":
        raise ValueError(f"--schedule {given['schedule']} needs --step-size")
    usual: dict[str, Any] = {"k": K, "mu": MU.get(optimizer), "tol": TOL, "step_size": None, "schedule": None}
    usual |= {"eta": 1.0, "budget": 5, "mu_schedule": "adapt"}
    if optimizer == "sgd" and kind == "two-layer":
        usual |= {"step_size": STEP_SIZE, "schedule": "constant"}
    job = {name: usual[name] if given[name] is None else given[name] for name in OPTIONS[optimizer]}
    if "mu" in job and not job["mu"] > 0:
        raise ValueError(f"--mu: {optimizer} needs a smoothing strength > 0, got {job['mu']}")
    if "k" in job and job["k"] < 1:
        raise ValueError(f"--k: expected an integer >= 1, got {job['k']}")
    lam = LAM[kind] / n if given["lam"] is None else given["lam"]
    epochs = EPOCHS[optimizer] if given["epochs"] is None else given["epochs"]
    if lam == 0 and given["tol"] is None and "tol" in job:
        job["tol"] = None  # without lam there is no gap
    return {"model": kind, "optimizer": optimizer, "lam": lam, "epochs": epochs, "rng": given["rng"], **job}


def new_model(panel: ModuleType, kind: str, shape: Sequence[int], hidden: int) -> Any:
    """A model of one class over candidates with features of this shape."""
    make = getattr(panel, KINDS[kind])
    return make(tuple(shape)) if kind == "linear" else make(tuple(shape), hidden)


def packed(model: Any, data: Localization, images: np.ndarray, *, truth: bool = False) -> Any:
    """Images as the model packs them, with true boxes to train by if asked for; ValueError naming the file, the image and the field."""
    if data.features.shape[1:] != tuple(model.shape):
        raise ValueError(
            f"{data.name}: features: expected shape {tuple(model.shape)} as the model, got {data.features.shape[1:]}"
        )
    for i in images.tolist():
        data.features_of(i)  # checks them
        if truth and not data.overlaps(i).max() > 0:
            box = data.required("truth")[i].tolist()
            raise ValueError(f"{data.name}: image {i}: truth: no candidate touches the true box {box}")
    return model.pack(data.examples(images), data.required("truth")[images] if truth else None)


def optimize(panel: ModuleType, model: Any, data: Any, job: dict[str, Any], callback: Callback, **more: Any) -> Result:
    """Run the job's optimiser on packed images; ``more``: where to keep a checkpoint, what to resume, a start."""
    optimizer, k = job["optimizer"], job.get("k")
    objective = panel.StructuralHinge(model, data, **({} if k is None else {"smoothing": panel.smoothings.TopK(k)}))
    run: Callable[..., Result] = getattr(panel, optimizer.replace("-", "_"))
    options = {"lam": job["lam"], "rng": job["rng"], "callback": callback, **more}
    options |= {name: job[name] for name in ("mu", "tol", "eta", "budget") if name in job}
    if optimizer == "prox-linear":
        return run(objective, iterations=job["epochs"], schedule=job["mu_schedule"], **options)
    if optimizer == "sgd" and job["schedule"] is not None:
        options["step_size"] = getattr(panel.steps, SCHEDULES[job["schedule"]])(job["step_size"])
    elif job.get("step_size") is not None:
        options["step_size"] = job["step_size"]
    if optimizer == "sgd" and job["model"] == "two-layer":
        options["average"] = "last"
    return run(objective, epochs=job["epochs"], **options)


def find(model: Any, data: Any, w: Any, k: int = 1) -> list[Found]:
    """The k best boxes of each packed image (fewer where it has fewer candidates)."""
    found: list[Any] = [None] * data.n
    for piece in model.chunks(data, np.arange(data.n)):
        scores = host(model.scores(data, piece, w).values)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        for i, chosen, values in zip(piece.tolist(), best, scores, strict=True):
            found[i] = Found(data.boxes[data.offsets[i] + chosen], values[chosen])
    return found


def judged(truth: np.ndarray, found: Sequence[Found]) -> dict[str, float]:
    """CorLoc, average precision, and the mean overlap of the best boxes with the true ones (n, 4)."""
    best = np.stack([each.boxes[0] for each in found]) if found else np.zeros((0, 4), np.int64)
    scores = [each.scores[:1] for each in found]
    return {
        "corloc": corloc(truth, best),
        "average_precision": average_precision([box[None] for box in truth], [box[None] for box in best], scores),
        "mean_overlap": float(np.mean(iou(best, truth))) if found else float("nan"),
    }
