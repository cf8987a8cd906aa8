"""The work of ``localize`` for one class: pack images, train a model, find boxes and score them."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from diptych.commands.solvers import given, solve
from diptych.files.localization import Localization
from diptych.metrics import average_precision, corloc
from reference.arrays import host
from reference.structures.boxes import iou
from reference.training.result import Callback, Result

MODELS = {
    "linear": ("bcfw", "sgd", "svrg", "casimir-svrg-const", "casimir-svrg-adapt"),
    "two-layer": ("prox-linear", "sgd"),
}  # with the optimisers of each; the first is the default
KINDS = {"linear": "CandidateModel", "two-layer": "TwoLayerModel"}
SMOOTHED = ("svrg", "casimir-svrg-const", "casimir-svrg-adapt", "prox-linear")  # smoothing by the K best boxes
OPTIMIZERS = tuple(dict.fromkeys(name for names in MODELS.values() for name in names))
EPOCHS = {"bcfw": 50, "sgd": 30, "svrg": 30, "casimir-svrg-const": 30, "casimir-svrg-adapt": 30, "prox-linear": 20}
LAM = {"linear": 10.0, "two-layer": 1.0}  # divided by the number of images: Figures 3 and 4
MU = {"svrg": 0.1, "casimir-svrg-const": 0.1, "casimir-svrg-adapt": 10.0, "prox-linear": 1.0}
K = 10  # section 7.3
TOL = 0.01
STEP_SIZE = 3e-3  # for sgd on two layers
SCHEDULES = {"constant": "Constant", "inverse-sqrt": "InverseSqrt", "inverse-time": "InverseTime"}


class Found(NamedTuple):
    """The best boxes (k, 4) of an image with their scores (k,), best first."""

    boxes: np.ndarray
    scores: np.ndarray


def job_of(command: Any, n: int) -> dict[str, Any]:
    """The settings of a run on n images.

    Raises
    ------
    ValueError
        If the optimiser does not fit the model, or an option has no effect.
    """
    kind = command.model
    optimizer = command.optimizer or MODELS[kind][0]
    if optimizer not in MODELS[kind]:
        raise ValueError(f"--optimizer: a {kind} model is trained by {' or '.join(MODELS[kind])}, got {optimizer}")
    solver = given(command.solver, optimizer, OPTIMIZERS)
    for name, having in (("k", SMOOTHED), ("schedule", ("sgd",))):
        if getattr(command, name) is not None and optimizer not in having:
            raise ValueError(f"--{name} has no effect with --optimizer {optimizer}; these have it: {', '.join(having)}")
    if command.schedule is not None and command.solver.get("step_size") is None and kind == "linear":
        raise ValueError(f"--schedule {command.schedule} needs --step-size")
    lam = LAM[kind] / n if command.lam is None else command.lam
    usual: dict[str, Any] = {}
    if optimizer in SMOOTHED:
        usual = {"k": K if command.k is None else command.k, "mu": MU[optimizer]}
    if optimizer == "sgd":
        usual = {"step_size": None, "schedule": command.schedule}
        if kind == "two-layer":
            usual = {"step_size": STEP_SIZE, "schedule": command.schedule or "constant", "average": "last"}
    elif kind == "linear":
        usual["tol"] = TOL if lam > 0 else None  # without lam there is no gap
    else:
        usual |= {"eta": 1.0, "budget": 5, "mu_schedule": "adapt"}
    job = usual | solver
    if "mu" in job and not job["mu"] > 0:
        raise ValueError(f"--mu: {optimizer} needs a smoothing strength > 0, got {job['mu']}")
    if "k" in job and job["k"] < 1:
        raise ValueError(f"--k: expected an integer >= 1, got {job['k']}")
    epochs = EPOCHS[optimizer] if command.epochs is None else command.epochs
    return {"model": kind, "optimizer": optimizer, "lam": lam, "epochs": epochs, "rng": command.rng or 0, **job}


def new_model(panel: ModuleType, kind: str, shape: Sequence[int], hidden: int) -> Any:
    """A model of one class over candidates with features of this shape."""
    make = getattr(panel, KINDS[kind])
    return make(tuple(shape)) if kind == "linear" else make(tuple(shape), hidden)


def packed(model: Any, data: Localization, images: np.ndarray, *, truth: bool = False) -> Any:
    """Images packed by the model; with ``truth``, their true boxes too, for training.

    Raises
    ------
    ValueError
        If an image does not fit the model; the message names the file, the image and the field.
    """
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
    """Run the job's optimiser on packed images. more: ``checkpoint``, ``resume`` and ``w0``."""
    k = job.get("k")
    objective = panel.StructuralHinge(model, data, **({} if k is None else {"smoothing": panel.smoothings.TopK(k)}))
    arguments = {name: value for name, value in job.items() if name not in ("model", "optimizer", "k", "schedule")}
    if job.get("schedule") is not None:
        arguments["step_size"] = getattr(panel.steps, SCHEDULES[job["schedule"]])(job["step_size"])
    return solve(panel, job["optimizer"], objective, callback=callback, **arguments, **more)


def find(model: Any, data: Any, w: Any, k: int = 1) -> list[Found]:
    """The k best boxes of each packed image, fewer if it has fewer candidates."""
    results: list[Any] = [None] * data.n
    for piece in model.chunks(data, np.arange(data.n)):
        scores = host(model.scores(data, piece, w).values)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        for i, chosen, values in zip(piece.tolist(), best, scores, strict=True):
            results[i] = Found(data.boxes[data.offsets[i] + chosen], values[chosen])
    return results


def judged(truth: np.ndarray, boxes: Sequence[Found]) -> dict[str, float]:
    """CorLoc, average precision, and the mean overlap of the best boxes with the true boxes (n, 4)."""
    best = np.stack([each.boxes[0] for each in boxes]) if boxes else np.zeros((0, 4), np.int64)
    scores = [each.scores[:1] for each in boxes]
    return {
        "corloc": corloc(truth, best),
        "average_precision": average_precision([box[None] for box in truth], [box[None] for box in best], scores),
        "mean_overlap": float(np.mean(iou(best, truth))) if boxes else float("nan"),
    }
