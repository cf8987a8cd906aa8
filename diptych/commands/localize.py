"""``localize``: learn where objects are in images, from candidate boxes with features; make scenes, draw boxes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from tqdm import tqdm

from diptych import scenes
from diptych.commands.jobs import spread
from diptych.commands.options import Command, Task, Training, argument, flag, option, positive, refuse
from diptych.commands.output import Report, ending, outcome, table, trained, writable
from diptych.commands.show import loaded, show_of
from diptych.commands.solvers import check_start, listed, settings_of, solve, solver_options
from diptych.files.localization import Localization, load_localization, save_localization
from diptych.metrics import average_precision, corloc
from diptych.pictures import plots
from reference.arrays import host
from reference.structures.boxes import iou
from reference.training.result import Row

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
NAMED = ("save", "log", "checkpoint", "resume", "start")  # options with one file for each class
OF_MODEL = ("model", "optimizer", "k", "schedule")  # settings that the solver does not take
PLACE = "{class}"
EACH = "; ".join(f"{model}: {', '.join(names)}" for model, names in MODELS.items())
SHARES = ", ".join(f"{value:g}/images of a {name} model" for name, value in LAM.items())


class Make(Command):
    """Write a file of scenes, each with one letter to be found among others, strokes and noise."""

    file: str = argument("file to write (.boxes); half a megabyte per image")
    images: int = option("data", "number of scenes, about as many of each class (default: 500)", type=positive,
        default=500, metavar="N")  # fmt: skip
    classes: str = option("data", f"one a class (default: {scenes.CLASSES})", default=scenes.CLASSES, metavar="LETTERS")
    test: bool = option("data", "make scenes of the letters that are held out for testing", action="store_true")
    candidates: int = option("data", "boxes per image (default: 200; the paper: 1000)", type=positive, default=200,
        metavar="N")  # fmt: skip
    directions: int = option("data",
        "directions of the filters; 3 x 3 x 2 directions scales features per box (default: 8; "
        "with the paper's 256 channels: 16)", type=positive, default=8)  # fmt: skip
    scales: int = option("data", "scales of the filters (default: 4; with the paper's 256 channels: 8)", type=positive,
        default=4)  # fmt: skip
    size: int = option("data", "height and width (default: 96)", type=positive, default=96, metavar="PIXELS")
    rng: int = flag(default=0)

    writes: ClassVar[tuple[str, ...]] = ("file",)

    def run(self, panel: ModuleType) -> Report:
        names = ("classes", "candidates", "directions", "scales", "size", "test", "rng")
        settings, started = {name: getattr(self, name) for name in names}, time.perf_counter()
        images = scenes.make_scenes(self.images, **settings)
        shown = tqdm(images, total=self.images, desc="make", unit="image", leave=False, disable=self.quiet or None)
        save_localization(self.file, shown, list(self.classes), {"scenes": settings})
        data, megabytes = load_localization(self.file), Path(self.file).stat().st_size / 1e6
        best = float(np.mean([data.overlaps(i).max() for i in range(data.n)]))
        report = {"file": str(self.file), "images": data.n, **settings, "features": list(data.features.shape[1:])}
        report |= {"best_overlap": best, "megabytes": megabytes, "seconds": time.perf_counter() - started}
        shape = " x ".join(map(str, report["features"]))
        lines = [
            f"{self.file}: {data.n} scenes with one of {', '.join(data.classes)}, {self.candidates} boxes each, "
            f"features {shape}, {megabytes:.0f} MB",
            f"the best box of a scene overlaps the true one by {best:.2f} (mean)    seconds {report['seconds']:.1f}",
        ]
        return Report(report, lines)


class Train(Training):
    """Train a model for each class, and test it on other images."""

    limit: int | None = flag("of each class")
    save: str | None = flag(f"{PLACE} in the name is the class, here and in the names of the other files")
    data: str = argument("a file of images, such as make writes")
    classes: list[str] | None = option("data", "only this class; repeatable (default: all that have images)", "--class",
        action="append", metavar="NAME")  # fmt: skip
    test: str | None = flag()
    start: str | None = flag()
    most_bytes: int = flag()
    rng: int | None = flag()
    model: str = option("model", "scores linear in the features, or of two layers (default: linear)",
        choices=list(MODELS), default="linear")  # fmt: skip
    hidden: int | None = option("model", "channels between the two layers (default: 16)", type=positive, rare=True)
    optimizer: str | None = option("solver", f"{EACH} (default: the first)", choices=OPTIMIZERS)
    lam: float | None = flag(f"default: {SHARES}")
    epochs: int | None = flag(f"default: {listed(EPOCHS)}")
    tol: float | None = flag("default: 0.01")
    k: int | None = option("solver",
        f"outputs that the smoothed max is made of, of {', '.join(SMOOTHED)} (default: 10)", rare=True)  # fmt: skip
    schedule: str | None = option("solver",
        "step sizes of sgd, from --step-size on (default: 1/(lam (t + max(n, 1/lam))); two layers: constant)",
        choices=list(SCHEDULES), rare=True)  # fmt: skip
    solver: dict[str, Any] = solver_options(OPTIMIZERS, mu=f"default: {listed(MU)}",
        step_size="default of sgd with two layers: 0.003", budget="default: 5")  # fmt: skip

    writes: ClassVar[tuple[str, ...]] = ()  # each class has its own

    def run(self, panel: ModuleType) -> Report:
        if self.hidden is not None and self.model == "linear":
            raise ValueError("--hidden needs --model two-layer")
        if self.start is not None:
            refuse(vars(self), ["hidden"], "with --start: the saved model has its own")
        data, test = load_localization(self.data), load_localization(self.test) if self.test else None
        data.required("truth")
        classes = list(dict.fromkeys(self.classes or (name for name in data.classes if len(data.of_class(name)))))
        images = {name: np.array(spread(data.of_class(name), self.limit), np.int64) for name in classes}
        for name in classes:
            if not len(images[name]):
                raise ValueError(f"{self.data}: no image of class {name}")
            if test is not None and len(test.of_class(name)):
                test.required("truth")
        jobs = {name: job_of(self, len(images[name])) for name in classes}
        if self.start is not None:
            check_start(jobs[classes[0]]["optimizer"], OPTIMIZERS)
        told = {what: path for what in NAMED if (path := getattr(self, what)) is not None}
        for what, path in told.items():
            if len(classes) > 1 and PLACE not in path:
                several = f"as there are {len(classes)} classes, or one --class; got {path}"
                raise ValueError(f"--{what}: expected {PLACE} in the name, {several}")
        files = {name: {what: path.replace(PLACE, name) for what, path in told.items()} for name in classes}
        for named in files.values():
            writable(named.get("save"), named.get("log"), named.get("checkpoint"), self.plot)
        missing = [name for name in classes if self.resume and not Path(files[name]["resume"]).exists()]
        # the interrupted run did not reach these classes: they start from the beginning
        for name in missing if len(missing) < len(classes) else ():
            del files[name]["resume"]
        reports: list[dict[str, Any]] = []
        interrupted = False
        while not interrupted and len(reports) < len(classes):
            name = classes[len(reports)]
            try:
                one = replace(self, **{"resume": None, **files[name]})
                reports.append(one._class(panel, data, test, name, images[name], jobs[name]))
                interrupted = reports[-1]["interrupted"]
            except KeyboardInterrupt:
                if not reports:
                    raise
                interrupted = True
        report = {"data": self.data, "test_data": self.test, "classes": reports, "interrupted": interrupted}
        report["success"] = all(each["success"] for each in reports)
        report["message"] = "; ".join(f"{each['class']}: {each['message']}" for each in reports)
        rows = [("class", "images", "objective", "seconds", "CorLoc, %", "AP, %", "test CorLoc, %", "AP, %")]
        rows += [(each["class"], str(each["images"]), f"{each['objective']:.4f}", f"{each['seconds']:.1f}",
                  *_percent(each["train"]), *_percent(each["test"])) for each in reports]  # fmt: skip
        kept = [column for column in zip(*rows, strict=True) if set(column[1:]) != {"-"}]
        lines = table([*zip(*kept, strict=True)])
        lines += [f"{each['class']}: {line}" for each in reports for line in ending(each)]
        lines += [f"{name}: not trained" for name in classes[len(reports) :]]
        lines += [f"saved {each['saved']}" for each in reports if "saved" in each]
        curves = {each["class"]: [Row(**row) for row in each["history"]] for each in reports}
        title = f"hinge, {jobs[classes[0]]['optimizer']}"
        return Report(report, lines, partial(plots.convergence, histories=curves, title=title), single=False)

    def _class(
        self, panel: ModuleType, data: Localization, test: Localization | None, name: str, images: np.ndarray, job: Any
    ) -> dict[str, Any]:
        """Train a model of one class, whose files the command names, and return its report."""
        started, w0 = time.perf_counter(), None
        if self.start is not None:
            model, w0, _ = loaded(panel, self, _check_kind, self.start)
            if (kind := type(model).__name__) != KINDS[self.model]:
                raise ValueError(f"--start: {self.start} has a {kind}, --model {self.model} is another")
        else:
            hidden = () if self.model == "linear" else (self.hidden or 16,)
            model = getattr(panel, KINDS[self.model])(tuple(data.features.shape[1:]), *hidden)
        examples = packed(model, data, images, truth=True)
        others: Any = () if test is None else test.of_class(name)
        held_out = packed(model, test, others) if test is not None and len(others) else None
        what = {"file": self.data, "class": name, "examples": len(images), "start": self.start, "job": job}
        smoothing = {"smoothing": panel.smoothings.TopK(job["k"])} if "k" in job else {}
        objective = panel.StructuralHinge(model, examples, **smoothing)
        arguments = {option: value for option, value in job.items() if option not in OF_MODEL}
        if job.get("schedule") is not None:
            arguments["step_size"] = getattr(panel.steps, SCHEDULES[job["schedule"]])(job["step_size"])
        run = partial(solve, panel, job["optimizer"], objective, w0=w0, **arguments)
        info = {"data": self.data, "class": name, **job}
        result, _ = trained(panel, self, what, job["epochs"], run, model, info)
        report = {"class": name, "images": len(images), "weights": model.size, "job": job, **outcome(result)}
        report |= {"train": judged(data.required("truth")[images], find(model, examples, result.x)), "test": None}
        if test is not None and held_out is not None:
            report["test"] = judged(test.required("truth")[others], find(model, held_out, result.x))
        saved = {"saved": str(self.save)} if self.save else {}
        return report | saved | {"seconds": time.perf_counter() - started}


class Evaluate(Command):
    """How well saved models find the objects of a file: CorLoc, average precision."""

    data: str = argument("a file of images")
    models: list[str] = argument("files written by localize train --save", nargs="+", metavar="MODEL")
    most_bytes: int = flag()
    limit: int | None = flag()

    hint: ClassVar[str] = ""  # the end of the error where no image is of the class

    def run(self, panel: ModuleType) -> Report:
        data = load_localization(self.data)
        data.required("truth")
        reports: list[dict[str, Any]] = []
        for path in self.models:
            name, images, best = self.found(panel, data, path, 1, self.limit)
            scores = judged(data.required("truth")[images], best)
            reports.append({"model": str(path), "class": name, "images": len(images), **scores})
        of = ("corloc", "average_precision", "mean_overlap")
        means = {what: float(np.mean([each[what] for each in reports])) for what in of}
        report = {"data": self.data, "models": reports, "mean": means}
        rows: list[tuple[str, ...]] = [("class", "images", "CorLoc, %", "AP, %", "mean overlap")]
        rows += [(x["class"], str(x["images"]), *_percent(x), f"{x['mean_overlap']:.3f}") for x in reports]
        rows += [("mean", "", *_percent(means), f"{means['mean_overlap']:.3f}")] if len(reports) > 1 else []
        return Report(report, table(rows))

    def found(
        self, panel: ModuleType, data: Localization, path: str, k: int, limit: int | None = None
    ) -> tuple[str, np.ndarray, list[Found]]:
        """A model's class, the images of that class, and the k best boxes of each image."""
        model, w, info = loaded(panel, self, _check_kind, path)
        name, any_class = info["class"], data.labels is None and self.hint != ""
        every = np.arange(data.n) if any_class or getattr(self, "all_images", False) else data.of_class(name)
        images = np.array(spread(every, limit), np.int64)
        if not len(images):
            raise ValueError(f"{data.name}: no image of class {name}, which {path} finds{self.hint}")
        return name, images, find(model, packed(model, data, images), w, k)


class Predict(Evaluate):
    """The boxes that saved models find, a line for each: rows top to bottom - 1, columns left to right - 1."""

    out: str | None = flag()
    top: int = flag("best boxes of an image; default: 1", default=1)
    all_images: bool = option("data", "also use images of other classes", action="store_true")

    hint: ClassVar[str] = "; --all-images of predict looks at the others"

    def run(self, panel: ModuleType) -> Report:
        data = load_localization(self.data)
        names = ("image", "class", "top", "left", "bottom", "right", "score", "overlap")
        lines = ["{:>6} {:8} {:>5} {:>5} {:>6} {:>5} {:>12} {:>8}".format(*names)]
        every = []
        for path in self.models:
            name, images, results = self.found(panel, data, path, self.top, self.limit)
            for i, each in zip(images.tolist(), results, strict=True):
                truth = _truth(data, i, name)
                for box, score in zip(each.boxes, each.scores.tolist(), strict=True):
                    overlap = None if truth is None else float(iou(box, truth))
                    every.append({"image": i, "class": name, "box": box.tolist(), "score": score, "overlap": overlap})
                    top, left, bottom, right = box.tolist()
                    share = "-" if overlap is None else f"{overlap:.3f}"
                    lines.append(f"{i:6} {name:8} {top:5} {left:5} {bottom:6} {right:5} {score:12.6g} {share:>8}")
        report = {"data": self.data, "models": list(map(str, self.models)), "boxes": every}
        return Report(report, lines, out=self.out)


class Draw(Evaluate):
    """A picture of images with their true boxes and those that models find."""

    models: list[str] = argument("files written by localize train --save", nargs="*", metavar="MODEL")
    limit: int = flag("default: 12", default=12)
    plot: str | None = flag()

    hint = Predict.hint

    def run(self, panel: ModuleType) -> Report:
        if self.plot is None:
            raise ValueError("--plot: expected a file for the picture")
        data = load_localization(self.data)
        data.required("pixels")
        drawn: list[tuple[int, str | None, Found | None]] = [(i, None, None) for i in range(data.n)]
        if self.models:
            found = [self.found(panel, data, path, 1) for path in self.models]  # the limit is of all
            drawn = [(i, name, each) for name, of, all in found for i, each in zip(of.tolist(), all, strict=True)]
        some = np.unique(np.linspace(0, len(drawn) - 1, min(self.limit, len(drawn))).round().astype(int))
        frames = [_frame(data, *drawn[j]) for j in some]
        right = [f.overlap >= 0.5 for f in frames if f.overlap is not None]
        report: dict[str, Any] = {"data": self.data, "images": [drawn[j][0] for j in some]}
        report |= {"right": sum(right) if right else None}
        score = f", {sum(right)} of {len(right)} boxes found overlap the true one by half or more" if right else ""
        return Report(report, [f"{len(frames)} of {len(drawn)} images{score}"], partial(plots.boxes, frames=frames))


def _frame(data: Localization, i: int, name: str | None, result: Found | None) -> plots.Frame:
    """Image i with its true box and the predicted box."""
    picture: Any = data.picture(i)
    truth, box = _truth(data, i, name), None if result is None else result.boxes[0]
    label = name or ("" if data.labels is None else data.classes[data.labels[i]])
    overlap = None if truth is None or box is None else float(iou(box, truth))
    return plots.Frame(picture, truth, box, f"{i}: {label}", overlap)


def _truth(data: Localization, i: int, name: str | None) -> Any:
    """The true box of image i, if it is known and of the class."""
    same_class = name is None or data.labels is None or data.classes[data.labels[i]] == name
    return data.required("truth")[i] if data.truth is not None and same_class else None


def _check_kind(path: str, model: Any, info: dict[str, Any]) -> None:
    if not hasattr(model, "shape") or not isinstance(info.get("class"), str):
        raise ValueError(f"{path}: expected a model of localize train, got a {type(model).__name__}")


def _percent(scores: dict[str, float] | None) -> list[str]:
    """CorLoc and average precision in percent."""
    return ["-" if scores is None else f"{100 * scores[name]:.1f}" for name in ("corloc", "average_precision")]


# the work for one class -----------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The best boxes (k, 4) of an image with their scores (k,), best first."""

    boxes: np.ndarray
    scores: np.ndarray


def job_of(command: Any, n: int) -> dict[str, Any]:
    """The settings of a run on n images. ValueError for an option of another model or optimiser."""
    kind = command.model
    optimizer = command.optimizer or MODELS[kind][0]
    if optimizer not in MODELS[kind]:
        raise ValueError(f"--optimizer: a {kind} model is trained by {' or '.join(MODELS[kind])}, got {optimizer}")
    for name, having in (("k", SMOOTHED), ("schedule", ("sgd",))):
        if optimizer not in having:
            refuse(vars(command), [name], f"with --optimizer {optimizer}; these have it: {', '.join(having)}")
    if command.schedule is not None and command.solver.get("step_size") is None and kind == "linear":
        raise ValueError(f"--schedule {command.schedule} needs --step-size")
    lam = LAM[kind] / n if command.lam is None else command.lam
    usual: dict[str, Any] = {"lam": lam, "epochs": EPOCHS[optimizer], "rng": 0}
    if optimizer in SMOOTHED:
        usual |= {"k": K, "mu": MU[optimizer]}
    if optimizer == "sgd":
        usual |= {"step_size": None, "schedule": None}
        usual |= {} if kind == "linear" else {"step_size": STEP_SIZE, "schedule": "constant", "average": "last"}
    elif kind == "linear":
        usual["tol"] = TOL if lam > 0 else None  # without lam there is no gap
    else:
        usual |= {"eta": 1.0, "budget": 5, "mu_schedule": "adapt"}
    job = settings_of(command, usual, optimizer, OPTIMIZERS)
    if "mu" in job and not job["mu"] > 0:
        raise ValueError(f"--mu: {optimizer} needs a smoothing strength > 0, got {job['mu']}")
    if "k" in job and job["k"] < 1:
        raise ValueError(f"--k: expected an integer >= 1, got {job['k']}")
    return {"model": kind, "optimizer": optimizer, **job}


def packed(model: Any, data: Localization, images: np.ndarray, *, truth: bool = False) -> Any:
    """Images packed by the model; with ``truth``, their true boxes too. ValueError for one that does not fit it."""
    if data.features.shape[1:] != tuple(model.shape):
        expected = f"shape {tuple(model.shape)} as the model"
        raise ValueError(f"{data.name}: features: expected {expected}, got {data.features.shape[1:]}")
    for i in images.tolist():
        data.features_of(i)  # checks them
        if truth and not data.overlaps(i).max() > 0:
            box = data.required("truth")[i].tolist()
            raise ValueError(f"{data.name}: image {i}: truth: no candidate touches the true box {box}")
    return model.pack(data.examples(images), data.required("truth")[images] if truth else None)


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


TASK = Task(
    "localize",
    "learn where objects are in images, and find them",
    "Learn to tell which of an image's candidate boxes is around an object, a model for each class (train), score "
    "models (evaluate), find boxes (predict), draw them (draw), and see what a model holds (show). make writes a file "
    "of images to learn from: handwritten letters on cluttered pages. A file of your own: save_localization(path, "
    "images, classes); its format is described in diptych/files/localization.py.",
    (Make, Train, Evaluate, Predict, Draw, show_of(_check_kind)),
)
