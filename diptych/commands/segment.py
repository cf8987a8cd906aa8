"""``segment``: learn from clean and noisy binary pictures how to remove noise, and remove it."""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.jobs import limited
from diptych.commands.options import TRAINING, add_flags, add_task, number, positive
from diptych.commands.output import announce_compilation, finish, opening, print_report, trained, writable
from diptych.commands.show import add_show
from diptych.commands.solvers import add_solver, frank_wolfe_job, solve
from diptych.files.models import load_model
from diptych.pictures import plots
from diptych.pictures.grids import (
    EDGE_FEATURES,
    NODE_FEATURES,
    features,
    noisy_copy,
    page,
    read_pictures,
    word_pictures,
    writable_picture,
    write_picture,
)
from reference.datasets import load_letters
from reference.files import save_bytes

__all__ = ["add"]


OPTIMIZERS = ("bcfw",)
JOB: dict[str, Any] = {"lam": 10.0, "epochs": 60, "tol": 0.02, "rng": 0}


def add(commands: Any) -> None:
    """Add the command ``segment`` to the subparsers of the command line."""
    action = add_task(commands, "segment", "learn to take the noise off binary pictures, and take it off",
        "Learn from clean binary pictures and noisy copies of them which pixels are ink (train), score a "
        "model on other pictures (evaluate), restore noisy ones (predict), by minimum cuts, and see what "
        "a model holds (show). Picture files: .npy and .npz (zeros and ones), .pbm, .pgm, .png (dark is "
        "ink).")  # fmt: skip
    clean = "'letters' (handwritten words), or a file of clean pictures, such as an .npz with one an array"
    sub = action("train", _train, "train on clean pictures and noisy copies, by Frank-Wolfe on the structural hinge")
    sub.add_argument("pictures", help=clean)
    sub.option("data", "--noise", type=_share, default=0.15,
        help="share of pixels flipped in the copies (default: 0.15)")  # fmt: skip
    sub.option("data", "--scale", type=positive,
        help="letters: scale of each pixel to N x N pixels (default: 2)", rare=True)  # fmt: skip
    sub.option("model", "--connectivity", type=int, choices=(4, 8), default=4,
        help="number of neighbours of a pixel (default: 4)")  # fmt: skip
    add_flags(sub, *TRAINING, "most_bytes", "rng", limit="default: 10 words; all of a file",
        lam="default: 10, next to wrong pixels a picture")  # fmt: skip
    add_flags(sub, **{name: f"default: {JOB[name]}" for name in ("epochs", "tol")})
    add_solver(sub, OPTIMIZERS)

    sub = action("evaluate", _evaluate,
        "the share of wrong pixels in noisy copies before and after a saved model has restored them")  # fmt: skip
    sub.add_argument("model", help="a file written by segment train --save")
    sub.add_argument("pictures", help=clean)
    sub.option("data", "--noise", type=_share, help="share of pixels flipped (default: as in training)")
    add_flags(sub, "most_bytes", "rng", limit="default: 10 words; all of a file")

    sub = action("predict", _predict, "restore noisy pictures by a saved model")
    sub.add_argument("model", help="a file written by segment train --save")
    sub.add_argument(
        "noisy", help="a noisy picture, an .npz of several, or 'letters': a page of words, to which noise is added"
    )
    sub.option("data", "--clean", metavar="FILE", help="the same without noise, to count the wrong pixels")
    sub.option("data", "--words", type=positive, help="letters: words on the page (default: 6)")
    sub.option("data", "--noise", type=_share, help="letters: share of pixels flipped (default: as in training)")
    add_flags(sub, "limit", "most_bytes", "rng", out="the restored picture: .npy, .pbm, .pgm, .png; .npz of several",
        plot="clean, where known, noisy and restored")  # fmt: skip

    add_show(action, "segment train", _check_info)


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    training, test = _clean_pictures(options)
    writable(options.save, options.log, options.checkpoint, options.plot)
    announce_compilation(panel, options.quiet)
    job = frank_wolfe_job(options, JOB)
    rng = np.random.default_rng(job["rng"])
    noisy = [noisy_copy(picture, options.noise, rng) for picture in training]
    noisy_test = [noisy_copy(picture, options.noise, rng) for picture in test]
    started = time.perf_counter()
    model = panel.SegmentationModel(len(NODE_FEATURES), len(EDGE_FEATURES))
    images = [features(picture, options.connectivity) for picture in noisy]
    objective = panel.StructuralHinge(model, model.pack(images, [picture.ravel() for picture in training]))
    what = {"pictures": options.pictures, "job": job}
    more = {"checkpoint": options.checkpoint, "resume": options.resume, **job}
    settings = {"noise": options.noise, "connectivity": options.connectivity, "scale": options.scale}
    info = {"pictures": options.pictures, "features": [*NODE_FEATURES, *EDGE_FEATURES], **settings, **job}
    run = partial(solve, panel, "bcfw", objective, **more)
    result, report = trained(panel, options, what, job["epochs"], run, model, info)
    report |= settings
    w = np.asarray(result.x)
    report |= {
        "images": len(training),
        "pixels": sum(picture.size for picture in training),
        "relative_gap": _ratio(float(result.certificate), result.fun),
        "seconds": time.perf_counter() - started,
        "weights": dict(zip((*NODE_FEATURES, *EDGE_FEATURES), w.tolist(), strict=True)),
        "train": _errors(model, w, training, noisy, options.connectivity),
        "test": _errors(model, w, test, noisy_test, options.connectivity) if test else None,
    }
    lines = [
        f"{len(training)} pictures of {options.pictures}, {report['pixels']} pixels: objective {result.fun:.3f}, "
        f"within {100 * report['relative_gap']:.3g} % of the optimum, {result.nit} epochs, {report['seconds']:.2f} "
        "seconds",
        *(f"  {name:14} {weight:8.3f}" for name, weight in report["weights"].items()),
        _error_line("pictures trained on", report["train"]),
        *([_error_line("new pictures", report["test"])] if test else []),
    ]
    return finish(options, report, lines, {panel.__name__: result.history}, f"hinge, bcfw, lam = {job['lam']:g}")


def _evaluate(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, info = _load(panel, options)
    options.scale = info.get("scale") if options.pictures == "letters" else None
    pictures, others = _clean_pictures(options)
    pictures = others or pictures  # of the letters, use words that were not trained on
    rng = np.random.default_rng(options.rng or 0)
    noise = info["noise"] if options.noise is None else options.noise
    noisy = [noisy_copy(picture, noise, rng) for picture in pictures]
    announce_compilation(panel, options.quiet)
    error = _errors(model, w, pictures, noisy, info["connectivity"])
    report = opening(panel, options, model=str(options.model), pictures=options.pictures, images=len(pictures))
    print_report(options, report | {"noise": noise, "error": error}, [_error_line(f"{len(pictures)} pictures", error)])


def _predict(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, info = _load(panel, options)
    noisy, clean = _to_restore(options, info)
    _check_outputs(options, len(noisy))
    announce_compilation(panel, options.quiet)
    started = time.perf_counter()
    restored = _restored(model, w, noisy, info["connectivity"])
    seconds = time.perf_counter() - started
    each = [_described(before, after) for before, after in zip(noisy, restored, strict=True)]
    turned = sum(picture["turned"] for picture in each)
    report = opening(panel, options, model=str(options.model), noisy=options.noisy)
    report |= {"seconds": seconds, "error": None if clean is None else _wrong(clean, noisy, restored)}
    if options.out:
        _write(options.out, restored)
        report["out"] = str(options.out)
    else:
        for picture, labels in zip(each, restored, strict=True):
            picture["restored"] = ["".join(map(str, row)) for row in labels.tolist()]
    if options.plot:
        shown = {"noisy": noisy[0], "restored": restored[0]}
        plots.pictures(options.plot, shown if clean is None else {"clean": clean[0], **shown})
        report["plot"] = str(options.plot)
    report |= each[0] if len(each) == 1 else {"pictures": each}
    sizes = " and ".join(dict.fromkeys(f"{picture['width']} x {picture['height']}" for picture in each))
    several = "" if len(each) == 1 else f"{len(each)} pictures of "
    lines = [
        f"{options.noisy}: {several}{sizes} pixels, {turned} turned over in {seconds:.2f} seconds",
        *([] if clean is None else [_error_line("this picture" if len(each) == 1 else "all", report["error"])]),
        *(f"{what} {report[what]}" for what in ("out", "plot") if what in report),
    ]
    print_report(options, report, lines)


def _described(noisy: np.ndarray, restored: np.ndarray) -> dict[str, Any]:
    """The size of a picture and the number of pixels that restoration turned over."""
    return {"height": noisy.shape[0], "width": noisy.shape[1], "turned": int(np.sum(restored != noisy))}


def _check_outputs(options: argparse.Namespace, n: int) -> None:
    """Raise ValueError for files of --out and --plot that cannot be written, or that do not hold n pictures."""
    writable(options.out, options.plot)
    if options.plot and n > 1:
        raise ValueError(f"--plot: expected one picture, got {n}; --limit 1 takes the first")
    if options.out and n > 1 and Path(options.out).suffix.lower() != ".npz":
        raise ValueError(f"{options.out}: expected a name that ends with .npz, as {options.noisy} has {n} pictures")
    if options.out and n == 1:
        writable_picture(options.out)


def _write(path: str, pictures: Sequence[np.ndarray]) -> None:
    """Write one picture in the format of the suffix, or several as the arrays of an .npz."""
    if len(pictures) == 1:
        write_picture(path, pictures[0])
        return
    content = io.BytesIO()
    np.savez(content, *(picture.astype(np.uint8) for picture in pictures))
    save_bytes(path, content.getvalue())


def _load(panel: ModuleType, options: argparse.Namespace) -> tuple[Any, np.ndarray, dict[str, Any]]:
    model, w, info = load_model(options.model, panel, most_bytes=options.most_bytes)
    _check_info(options.model, model, info)
    return model, w, info


def _check_info(path: str, model: Any, info: dict[str, Any]) -> None:
    """Raise ValueError for a model of another kind, and for a file with missing or invalid training settings."""
    if type(model).__name__ != "SegmentationModel" or info.get("features") != [*NODE_FEATURES, *EDGE_FEATURES]:
        raise ValueError(f"{path}: expected a model of segment train of this version, got a {type(model).__name__}")
    for name, expected, right in (
        ("connectivity", "4 or 8", info.get("connectivity") in (4, 8)),
        ("noise", "a share in 0..0.5", type(info.get("noise")) in (int, float) and 0 <= info["noise"] <= 0.5),
        ("scale", "an integer in 1..100, or null", info.get("scale") is None or info["scale"] in range(1, 101)),
    ):
        if not right:
            raise ValueError(f"{path}: info: {name}: expected {expected}, got {info.get(name)!r:.80}")


def _clean_pictures(options: argparse.Namespace) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pictures to train on, and other pictures to test on.

    For 'letters' both are words spread evenly over the data. For a file the second list is empty.
    """
    if options.pictures == "letters":
        options.scale = 2 if options.scale is None else options.scale
        n = 10 if options.limit is None else options.limit
        number_of_words = len(load_letters().X)
        if not 1 <= n <= number_of_words // 2:
            raise ValueError(f"--limit: expected 1..{number_of_words // 2} words, got {n}")
        words = np.arange(2 * n) * number_of_words // (2 * n)
        return word_pictures(words[::2], options.scale), word_pictures(words[1::2], options.scale)
    if options.scale is not None:
        raise ValueError("--scale has no effect with a file of pictures")
    return _some(options, options.pictures), []


def _some(options: argparse.Namespace, path: str) -> list[np.ndarray]:
    """The pictures of a file that --limit selects."""
    pictures = read_pictures(path, most_bytes=options.most_bytes)
    n = len(pictures) if options.limit is None else options.limit
    if not 1 <= n <= len(pictures):
        raise ValueError(f"--limit: {path} has {len(pictures)} pictures, got {n}")
    return [pictures[i] for i in limited(len(pictures), n)]


def _to_restore(options: argparse.Namespace, info: dict[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
    """The noisy pictures, and the clean ones or None."""
    if options.noisy != "letters":
        for name in ("words", "noise", "rng"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name} has no effect with a noisy picture of your own")
        noisy = _some(options, options.noisy)
        clean = None if options.clean is None else _some(options, options.clean)
        sizes = [[picture.shape for picture in pictures or ()] for pictures in (noisy, clean)]
        if clean is not None and sizes[0] != sizes[1]:
            expected, got = (", ".join(map(str, each)) for each in sizes)
            raise ValueError(f"{options.clean}: expected shape {expected} as {options.noisy}, got {got}")
        return noisy, clean
    if options.limit is not None:
        raise ValueError("--limit has no effect with letters, which are one page; --words sets the words on it")
    if options.clean is not None:
        raise ValueError("--clean has no effect with letters, which are clean before noise is added")
    rng = np.random.default_rng(1 if options.rng is None else options.rng)
    scale, words = info.get("scale") or 2, 6 if options.words is None else options.words
    drawn = page(word_pictures(rng.integers(0, len(load_letters().X), words), scale), 2 * scale)
    return [noisy_copy(drawn, info["noise"] if options.noise is None else options.noise, rng)], [drawn]


def _restored(model: Any, w: np.ndarray, noisy: Sequence[np.ndarray], connectivity: int) -> list[np.ndarray]:
    """The model's best labelling of each noisy picture, as a picture."""
    labels = model.predict(model.pack([features(picture, connectivity) for picture in noisy]), None, w)
    return [y.reshape(picture.shape) for y, picture in zip(labels, noisy, strict=True)]


def _errors(
    model: Any, w: np.ndarray, clean: Sequence[np.ndarray], noisy: Sequence[np.ndarray], connectivity: int
) -> dict[str, float]:
    return _wrong(clean, noisy, _restored(model, w, noisy, connectivity))


def _wrong(
    clean: Sequence[np.ndarray], noisy: Sequence[np.ndarray], restored: Sequence[np.ndarray]
) -> dict[str, float]:
    """The share of wrong pixels before and after restoration."""
    pixels = sum(picture.size for picture in clean)
    before, after = (
        sum(int(np.sum(x != y)) for x, y in zip(clean, other, strict=True)) / pixels for other in (noisy, restored)
    )
    return {"before": before, "after": after}


def _error_line(what: str, error: dict[str, float]) -> str:
    return f"wrong pixels, {what}: {100 * error['before']:.2f} % before, {100 * error['after']:.2f} % after"


def _ratio(gap: float, objective: float) -> float:
    return gap / objective if objective > 0 else 0.0


def _share(text: str) -> float:
    value = number(text)
    if value > 0.5:
        raise argparse.ArgumentTypeError(f"expected a share of the pixels in 0..0.5, got {text}")
    return value
