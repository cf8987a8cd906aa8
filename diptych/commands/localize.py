"""``localize``: learn where objects are in images, from candidate boxes with features. It also makes scenes to learn
from, and draws the predicted boxes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych import scenes
from diptych.commands import localize_jobs as work
from diptych.commands.jobs import limited
from diptych.commands.options import Command, Training, add_task, argument, flag, option, positive
from diptych.commands.output import Report, announce_compilation, ending, outcome, watched, writable
from diptych.commands.show import add_show, loaded
from diptych.commands.solvers import check_start, listed, solver_options
from diptych.files.localization import Localization, load_localization
from diptych.files.localization_writer import LocalizationImage, save_localization
from diptych.files.models import save_model
from diptych.pictures.boxes import Frame, boxes
from reference.structures.boxes import iou
from reference.training.result import Result, Row

NAMED = ("save", "log", "checkpoint", "resume", "start")  # options with one file for each class
PLACE = "{class}"


EACH = "; ".join(f"{model}: {', '.join(names)}" for model, names in work.MODELS.items())
SMOOTHED = ", ".join(work.SMOOTHED)
SHARES = ", ".join(f"{value:g}/images of a {name} model" for name, value in work.LAM.items())


class Make(Command):
    """Write a file of scenes, each with one letter to be found among others, strokes and noise."""

    file: str = argument("file to write (.boxes); half a megabyte per image")
    images: int = option("data", "approximate number of scenes per class (default: 500)", type=positive, default=500,
        metavar="N")  # fmt: skip
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

    @property
    def written(self) -> list[str | None]:
        return [self.file, None]


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
        choices=list(work.MODELS), default="linear")  # fmt: skip
    hidden: int | None = option("model", "channels between the two layers (default: 16)", type=positive, rare=True)
    optimizer: str | None = option("solver", f"{EACH} (default: the first)", choices=work.OPTIMIZERS)
    lam: float | None = flag(f"default: {SHARES}")
    epochs: int | None = flag(f"default: {listed(work.EPOCHS)}")
    tol: float | None = flag("default: 0.01")
    k: int | None = option(
        "solver", f"outputs that the smoothed max is made of, of {SMOOTHED} (default: 10)", rare=True
    )
    schedule: str | None = option("solver",
        "step sizes of sgd, from --step-size on (default: 1/(lam (t + max(n, 1/lam))); two layers: constant)",
        choices=list(work.SCHEDULES), rare=True)  # fmt: skip
    solver: dict[str, Any] = solver_options(work.OPTIMIZERS, mu=f"default: {listed(work.MU)}",
        step_size="default of sgd with two layers: 0.003", budget="default: 5")  # fmt: skip

    @property
    def written(self) -> list[str | None]:
        return [self.plot]


class Evaluate(Command):
    """How well saved models find the objects of a file: CorLoc, average precision."""

    data: str = argument("a file of images")
    models: list[str] = argument("files written by localize train --save", nargs="+", metavar="MODEL")
    most_bytes: int = flag()
    limit: int | None = flag()


class Predict(Evaluate):
    """The boxes that saved models find, a line for each: rows top to bottom - 1, columns left to right - 1."""

    out: str | None = flag()
    top: int = flag("boxes of each image; default: 1", default=1)
    all_images: bool = option("data", "also use images of other classes", action="store_true")


class Draw(Evaluate):
    """A picture of images with their true boxes and those that models find."""

    models: list[str] = argument("files written by localize train --save", nargs="*", metavar="MODEL")
    limit: int = flag("default: 12", default=12)
    plot: str | None = flag()


def add(commands: Any) -> None:
    """Add the command ``localize`` to the subparsers of the command line."""
    action = add_task(commands, "localize", "learn where objects are in images, and find them",
        "Learn to tell which of an image's candidate boxes is around an object, a model for each class "
        "(train), score models (evaluate), find boxes (predict), draw them (draw), and see what a model "
        "holds (show). make writes a file of images to learn from: handwritten letters on cluttered "
        "pages. A file of your own: save_localization(path, images, classes); its format is described in "
        "diptych/files/localization.py.")  # fmt: skip
    action("make", _make, Make)
    action("train", _train, Train)
    action("evaluate", _evaluate, Evaluate)
    action("predict", _predict, Predict)
    action("draw", _draw, Draw)
    add_show(action, _check_kind)


def _make(panel: ModuleType, command: Make) -> Report:
    names = ("classes", "candidates", "directions", "scales", "size", "test", "rng")
    settings = {name: getattr(command, name) for name in names}
    started = time.perf_counter()
    images = scenes.make_scenes(command.images, **settings)
    shown = _shown(images, command.images, command.quiet)
    save_localization(command.file, shown, list(command.classes), {"scenes": settings})
    data = load_localization(command.file)
    megabytes = Path(command.file).stat().st_size / 1e6
    report = {
        "file": str(command.file),
        "images": data.n,
        **settings,
        "features": list(data.features.shape[1:]),
        "best_overlap": float(np.mean([data.overlaps(i).max() for i in range(data.n)])),
        "megabytes": megabytes,
        "seconds": time.perf_counter() - started,
    }
    shape = " x ".join(map(str, report["features"]))
    lines = [
        f"{command.file}: {data.n} scenes with one of {', '.join(data.classes)}, {command.candidates} boxes each, "
        f"features {shape}, {megabytes:.0f} MB",
        f"the best box of a scene overlaps the true one by {report['best_overlap']:.2f} (mean)    seconds "
        f"{report['seconds']:.1f}",
    ]
    return Report(report, lines)


def _train(panel: ModuleType, command: Train) -> Report:
    if command.hidden is not None and command.model == "linear":
        raise ValueError("--hidden needs --model two-layer")
    if command.hidden is not None and command.start is not None:
        raise ValueError("--hidden has no effect with --start: the saved model has its own")
    data, test = load_localization(command.data), load_localization(command.test) if command.test else None
    data.required("truth")
    classes = command.classes or [name for name in data.classes if len(data.of_class(name))]
    classes = list(dict.fromkeys(classes))
    images = {name: _limited(data.of_class(name), command.limit) for name in classes}
    for name in classes:
        if not len(images[name]):
            raise ValueError(f"{command.data}: no image of class {name}")
        if test is not None and len(test.of_class(name)):
            test.required("truth")
    jobs = {name: work.job_of(command, len(images[name])) for name in classes}
    if command.start is not None:
        check_start(jobs[classes[0]]["optimizer"], work.OPTIMIZERS)
    files = {name: {what: _named(command, what, name, classes) for what in NAMED} for name in classes}
    for named in files.values():
        writable(named["save"], named["log"], named["checkpoint"], command.plot)
    missing = [name for name in classes if (path := files[name]["resume"]) is not None and not Path(path).exists()]
    if len(missing) < len(classes):  # the interrupted run did not reach these classes: they start from the beginning
        for name in missing:
            files[name]["resume"] = None
    announce_compilation(panel, command.quiet)
    reports: list[dict[str, Any]] = []
    interrupted = False
    for name in classes:
        try:
            reports.append(_train_class(panel, command, data, test, name, images[name], jobs[name], files[name]))
        except KeyboardInterrupt:
            if not reports:
                raise
            interrupted = True
        if interrupted or reports[-1]["interrupted"]:
            interrupted = True
            break
    report = {
        "data": command.data,
        "test_data": command.test,
        "classes": reports,
        "interrupted": interrupted,
        "success": all(each["success"] for each in reports),
    }
    report["message"] = "; ".join(f"{each['class']}: {each['message']}" for each in reports)
    lines = _table([("class", "images", "objective", "seconds", "CorLoc, %", "AP, %", "test CorLoc, %", "AP, %")] + [
        (each["class"], str(each["images"]), f"{each['objective']:.4f}", f"{each['seconds']:.1f}",
         *_percent(each["train"]), *_percent(each["test"]))
        for each in reports
    ])  # fmt: skip
    lines += [f"{each['class']}: {line}" for each in reports for line in ending(each)]
    lines += [f"{name}: not trained" for name in classes[len(reports) :]]
    lines += [f"saved {each['saved']}" for each in reports if "saved" in each]
    curves = {each["class"]: [Row(**row) for row in each["history"]] for each in reports}
    return Report(report, lines, curves, f"hinge, {jobs[classes[0]]['optimizer']}", single=False)


def _train_class(
    panel: ModuleType,
    command: Train,
    data: Localization,
    test: Localization | None,
    name: str,
    images: np.ndarray,
    job: dict[str, Any],
    files: dict[str, Any],
) -> dict[str, Any]:
    """Train a model of one class and return its report."""
    started = time.perf_counter()
    model: Any = None
    more: dict[str, Any] = {what: files[what] for what in ("checkpoint", "resume")}
    if files["start"] is not None:
        model, w0, _ = loaded(panel, command, _check_kind, files["start"])
        if type(model).__name__ != work.KINDS[command.model]:
            raise ValueError(
                f"--start: {files['start']} has a {type(model).__name__}, --model {command.model} is another"
            )
        more["w0"] = w0
    if model is None:
        model = work.new_model(panel, command.model, data.features.shape[1:], command.hidden or 16)
    examples = work.packed(model, data, images, truth=True)
    others = np.zeros(0, np.int64) if test is None else test.of_class(name)
    held_out = work.packed(model, test, others) if test is not None and len(others) else None
    what = {"file": command.data, "class": name, "examples": len(images), "start": files["start"], "job": job}
    run = partial(work.optimize, panel, model, examples, job, **more)

    def save(result: Result) -> None:
        if files["save"]:
            save_model(files["save"], model, result.x, {"data": command.data, "class": name, **job})

    result = watched(panel, replace(command, **files), what, job["epochs"], run, save=save)
    report = {"class": name, "images": len(images), "weights": model.size, "job": job, **outcome(result)}
    report |= {"train": work.judged(data.required("truth")[images], work.find(model, examples, result.x)), "test": None}
    if test is not None and len(others):
        report["test"] = work.judged(test.required("truth")[others], work.find(model, held_out, result.x))
    if files["save"]:
        report["saved"] = str(files["save"])
    report["seconds"] = time.perf_counter() - started
    return report


def _evaluate(panel: ModuleType, command: Evaluate) -> Report:
    data = load_localization(command.data)
    data.required("truth")
    reports: list[dict[str, Any]] = []
    for path in command.models:
        model, w, info = loaded(panel, command, _check_kind, path)
        name = info["class"]
        images = _limited(data.of_class(name), command.limit)
        if not len(images):
            raise ValueError(f"{command.data}: no image of class {name}, which {path} finds")
        scores = work.judged(data.required("truth")[images], work.find(model, work.packed(model, data, images), w))
        reports.append({"model": str(path), "class": name, "images": len(images), **scores})
    means = {
        what: float(np.mean([each[what] for each in reports]))
        for what in ("corloc", "average_precision", "mean_overlap")
    }
    report = {"data": command.data, "models": reports, "mean": means}
    rows: list[tuple[str, ...]] = [("class", "images", "CorLoc, %", "AP, %", "mean overlap")]
    rows += [(x["class"], str(x["images"]), *_percent(x), f"{x['mean_overlap']:.3f}") for x in reports]
    rows += [("mean", "", *_percent(means), f"{means['mean_overlap']:.3f}")] if len(reports) > 1 else []
    return Report(report, _table(rows))


def _predict(panel: ModuleType, command: Predict) -> Report:
    data = load_localization(command.data)
    lines = [f"{'image':>6} {'class':8} {'top':>5} {'left':>5} {'bottom':>6} {'right':>5} {'score':>12} {'overlap':>8}"]
    every = []
    for path in command.models:
        name, images, results = _found(panel, data, path, command, command.limit, command.top, command.all_images)
        for i, each in zip(images.tolist(), results, strict=True):
            has_truth = data.truth is not None and (data.labels is None or data.classes[data.labels[i]] == name)
            for box, score in zip(each.boxes, each.scores.tolist(), strict=True):
                overlap = float(iou(box, data.required("truth")[i])) if has_truth else None
                every.append({"image": i, "class": name, "box": box.tolist(), "score": score, "overlap": overlap})
                top, left, bottom, right = box.tolist()
                share = "-" if overlap is None else f"{overlap:.3f}"
                lines.append(f"{i:6} {name:8} {top:5} {left:5} {bottom:6} {right:5} {score:12.6g} {share:>8}")
    report = {"data": command.data, "models": list(map(str, command.models)), "boxes": every}
    return Report(report, lines, out=command.out)


def _draw(panel: ModuleType, command: Draw) -> Report:
    if command.plot is None:
        raise ValueError("--plot: expected a file for the picture")
    data = load_localization(command.data)
    data.required("pixels")
    drawn: list[tuple[int, str | None, work.Found | None]]
    if command.models:
        every = [_found(panel, data, path, command, None, 1) for path in command.models]  # the limit is of all
        drawn = [
            (i, name, each) for name, images, results in every for i, each in zip(images.tolist(), results, strict=True)
        ]
    else:
        drawn = [(i, None, None) for i in range(data.n)]
    some = np.unique(np.linspace(0, len(drawn) - 1, min(command.limit, len(drawn))).round().astype(int))
    frames = [_frame(data, *drawn[j]) for j in some]
    boxes(command.plot, frames)
    right = [f.overlap >= 0.5 for f in frames if f.overlap is not None]
    report: dict[str, Any] = {"data": command.data, "images": [drawn[j][0] for j in some], "plot": str(command.plot)}
    report |= {"right": sum(right) if right else None}
    score = f", {sum(right)} of {len(right)} boxes found overlap the true one by half or more" if right else ""
    return Report(report, [f"{len(frames)} of {len(drawn)} images{score}", f"plot {command.plot}"])


def _frame(data: Localization, i: int, name: str | None, result: work.Found | None) -> Frame:
    """Image i with its true box and the predicted box."""
    picture = data.picture(i)
    assert picture is not None
    same_class = name is None or data.labels is None or data.classes[data.labels[i]] == name
    truth = data.required("truth")[i] if data.truth is not None and same_class else None
    box = None if result is None else result.boxes[0]
    label = name or ("" if data.labels is None else data.classes[data.labels[i]])
    overlap = None if truth is None or box is None else float(iou(box, truth))
    return Frame(picture, truth, box, f"{i}: {label}", overlap)


def _found(
    panel: ModuleType,
    data: Localization,
    path: str,
    command: Evaluate,
    limit: int | None,
    k: int,
    all_images: bool = False,
) -> tuple[str, np.ndarray, list[work.Found]]:
    """A model's class, the images of that class, and the k best boxes of each image."""
    model, w, info = loaded(panel, command, _check_kind, path)
    name = info["class"]
    images = np.arange(data.n) if all_images or data.labels is None else data.of_class(name)
    images = _limited(images, limit)
    if not len(images):
        raise ValueError(
            f"{data.name}: no image of class {name}, which {path} finds; --all-images of predict looks at the others"
        )
    return name, images, work.find(model, work.packed(model, data, images), w, k)


def _check_kind(path: str, model: Any, info: dict[str, Any]) -> None:
    if not hasattr(model, "shape") or not isinstance(info.get("class"), str):
        raise ValueError(f"{path}: expected a model of localize train, got a {type(model).__name__}")


def _limited(images: np.ndarray, limit: int | None) -> np.ndarray:
    some: np.ndarray = images[limited(len(images), limit)]
    return some


def _named(command: Train, what: str, name: str, classes: list[str]) -> str | None:
    """The file name in an option, for one class."""
    path = getattr(command, what)
    if path is not None and len(classes) > 1 and PLACE not in path:
        raise ValueError(
            f"--{what}: expected {PLACE} in the name, as there are {len(classes)} classes, or one --class; got {path}"
        )
    return None if path is None else path.replace(PLACE, name)


def _shown(images: Iterable[LocalizationImage], n: int, quiet: bool) -> Iterator[LocalizationImage]:
    """The images, with a progress bar if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield from images
        return
    from tqdm import tqdm

    yield from tqdm(images, total=n, desc="make", unit="image", leave=False)


def _percent(scores: dict[str, float] | None) -> tuple[str, str]:
    """CorLoc and average precision in percent."""
    if scores is None:
        return "-", "-"
    return f"{100 * scores['corloc']:.1f}", f"{100 * scores['average_precision']:.1f}"


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """The rows as aligned lines, columns after the first to the right. Columns of dashes only are left out."""
    kept = [column for column in zip(*rows, strict=True) if set(column[1:]) != {"-"}]
    widths = [max(map(len, column)) for column in kept]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in zip(*kept, strict=True)
    ]  # fmt: skip
