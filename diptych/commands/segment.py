"""``segment``: learn from clean binary pictures and noisy copies of them how to take noise away, and take it away."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.options import add_most_bytes, add_run, count, large, number
from diptych.commands.output import announce_compilation, print_report, watched, writable
from diptych.files.models import load_model, save_model
from diptych.pictures import plots
from diptych.pictures.grids import (
    EDGE_FEATURES,
    NODE_FEATURES,
    features,
    noisy_copy,
    page,
    read_picture,
    read_pictures,
    word_pictures,
    writable_picture,
    write_picture,
)
from reference.datasets import load_letters

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command ``segment`` to the subparsers of the command line."""
    whole = commands.add_parser(
        "segment",
        help="learn to take the noise off binary pictures, and take it off",
        description="Learn from clean binary pictures and noisy copies of them which pixels are ink (train), and restore noisy pictures "
        "(restore), by minimum cuts. Picture files: .npy and .npz (zeros and ones), .pbm, .pgm, .png (dark is ink).",
        allow_abbrev=False,
    )
    actions = whole.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: Any, summary: str) -> argparse.ArgumentParser:
        sub: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(command=run, name=f"segment {name}")
        sub.add_argument("--json", action="store_true", help="print everything as one JSON object")
        return sub

    sub = action("train", _train, "train on clean pictures and noisy copies, by Frank-Wolfe on the structural hinge")
    sub.add_argument(
        "pictures", help="'letters' (handwritten words), or a file of clean pictures, such as an .npz with one an array"
    )
    sub.add_argument("--save", metavar="FILE", help="write the model (.npz, loads in either panel)")
    add_most_bytes(sub)
    add_run(sub, start=False)
    sub.add_argument(
        "--noise", type=_share, default=0.15, help="share of pixels turned over in the copies (default: 0.15)"
    )
    sub.add_argument(
        "--images", type=count, metavar="N", help="train on so many pictures (default: 10 words; all of a file)"
    )
    sub.add_argument("--scale", type=_positive, help="letters: pixels a side for each pixel of theirs (default: 2)")
    sub.add_argument("--connectivity", type=int, choices=(4, 8), default=4, help="neighbours of a pixel (default: 4)")
    sub.add_argument(
        "--lam", type=number, default=10.0, help="weight of lam/2 ||w||^2, next to wrong pixels a picture (default: 10)"
    )
    sub.add_argument("--epochs", type=count, default=60, help="at most so many passes (default: 60)")
    sub.add_argument(
        "--tol", type=number, default=0.02, help="stop at this gap, relative to the objective (default: 0.02)"
    )
    sub.add_argument("--rng", type=large, default=0, help="seed of the noise and the orders (default: 0)")
    sub.add_argument("--quiet", action="store_true", help="no progress bar")

    sub = action("restore", _restore, "restore a noisy picture by a saved model")
    sub.add_argument("model", help="a file written by segment train --save")
    sub.add_argument("noisy", help="a noisy picture, or 'letters': a page of words, to which noise is added")
    add_most_bytes(sub)
    sub.add_argument("--clean", metavar="FILE", help="the picture without noise, to count the wrong pixels")
    sub.add_argument("--out", metavar="FILE", help="write the restored picture (.npy, .pbm, .pgm or .png)")
    sub.add_argument(
        "--plot",
        metavar="FILE",
        help="write clean (where known), noisy and restored beside one another (.png, .pdf or .svg)",
    )
    sub.add_argument("--words", type=_positive, help="letters: words on the page (default: 6)")
    sub.add_argument("--noise", type=_share, help="letters: share of pixels turned over (default: as in training)")
    sub.add_argument("--rng", type=large, help="letters: seed of the words and the noise (default: 1)")


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    training, test = _clean_pictures(options)
    writable(options.save, options.log, options.checkpoint, None)
    announce_compilation(panel)
    rng = np.random.default_rng(options.rng)
    noisy = [noisy_copy(picture, options.noise, rng) for picture in training]
    noisy_test = [noisy_copy(picture, options.noise, rng) for picture in test]
    started = time.perf_counter()
    model = panel.SegmentationModel(len(NODE_FEATURES), len(EDGE_FEATURES))
    images = [features(picture, options.connectivity) for picture in noisy]
    objective = panel.StructuralHinge(model, model.pack(images, [picture.ravel() for picture in training]))
    job = {"lam": options.lam, "epochs": options.epochs, "tol": options.tol, "rng": options.rng}
    asked, more = (
        {"pictures": options.pictures, "job": job},
        {"checkpoint": options.checkpoint, "resume": options.resume},
    )
    result = watched(
        panel, options, asked, options.epochs, lambda callback: panel.bcfw(objective, callback=callback, **job, **more)
    )
    settings = {"noise": options.noise, "connectivity": options.connectivity, "scale": options.scale}
    w = np.asarray(result.x)
    report = {
        "command": "segment train",
        "panel": panel.__name__,
        "version": panel.__version__,
        "pictures": options.pictures,
        "images": len(training),
        "pixels": sum(picture.size for picture in training),
        **settings,
        "job": job,
        "objective": result.fun,
        "certificate": result.certificate,
        "relative_gap": _ratio(float(result.certificate), result.fun),
        "success": result.success,
        "interrupted": result.interrupted,
        "message": result.message,
        "oracle_calls": result.oracle_calls,
        "seconds": time.perf_counter() - started,
        "weights": dict(zip((*NODE_FEATURES, *EDGE_FEATURES), w.tolist(), strict=True)),
        "train": _errors(model, w, training, noisy, options.connectivity),
        "test": _errors(model, w, test, noisy_test, options.connectivity) if test else None,
        "history": [row.as_dict() for row in result.history],
    }
    if options.save:
        info = {"pictures": options.pictures, "features": [*NODE_FEATURES, *EDGE_FEATURES], **settings, **job}
        save_model(options.save, model, w, info)
        report["saved"] = str(options.save)
    lines = [
        f"{len(training)} pictures of {options.pictures}, {report['pixels']} pixels: objective {result.fun:.3f}, "
        f"within {100 * report['relative_gap']:.3g} % of the optimum, {result.nit} epochs, {report['seconds']:.2f} seconds",
        *(f"  {name:14} {weight:8.3f}" for name, weight in report["weights"].items()),
        _error_line("pictures trained on", report["train"]),
        *([_error_line("new pictures", report["test"])] if test else []),
        *([] if result.success else [f"not converged: {result.message}"]),
        *([f"saved {options.save}"] if options.save else []),
    ]
    print_report(options, report, lines)
    return result.interrupted


def _restore(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, info = load_model(options.model, panel, most_bytes=options.most_bytes)
    if type(model).__name__ != "SegmentationModel" or info.get("features") != [*NODE_FEATURES, *EDGE_FEATURES]:
        raise ValueError(
            f"{options.model}: expected a model of segment train of this version, got a {type(model).__name__}"
        )
    _check_info(options.model, info)
    noisy, clean = _to_restore(options, info)
    writable(options.out, None)
    writable(options.plot)
    if options.out:
        writable_picture(options.out)
    announce_compilation(panel)
    started = time.perf_counter()
    (restored,) = _restored(model, w, [noisy], info["connectivity"])
    report = {
        "command": "segment restore",
        "panel": panel.__name__,
        "model": str(options.model),
        "noisy": options.noisy,
        "height": noisy.shape[0],
        "width": noisy.shape[1],
        "seconds": time.perf_counter() - started,
        "turned": int(np.sum(restored != noisy)),
        "error": None if clean is None else _wrong([clean], [noisy], [restored]),
    }
    if options.out:
        write_picture(options.out, restored)
        report["out"] = str(options.out)
    if options.plot:
        shown = {"noisy": noisy, "restored": restored}
        plots.pictures(options.plot, shown if clean is None else {"clean": clean, **shown})
        report["plot"] = str(options.plot)
    lines = [
        f"{options.noisy}: {noisy.shape[1]} x {noisy.shape[0]} pixels, {report['turned']} turned over in {report['seconds']:.2f} seconds",
        *([] if clean is None else [_error_line("this picture", report["error"])]),
        *(f"{what} {report[what]}" for what in ("out", "plot") if what in report),
    ]
    print_report(options, report, lines)


def _check_info(path: str, info: dict[str, Any]) -> None:
    """ValueError where a file does not say how its model was trained."""
    for name, expected, right in (
        ("connectivity", "4 or 8", info.get("connectivity") in (4, 8)),
        ("noise", "a share in 0..0.5", type(info.get("noise")) in (int, float) and 0 <= info["noise"] <= 0.5),
        ("scale", "an integer in 1..100, or null", info.get("scale") is None or info["scale"] in range(1, 101)),
    ):
        if not right:
            raise ValueError(f"{path}: info: {name}: expected {expected}, got {info.get(name)!r:.80}")


def _clean_pictures(options: argparse.Namespace) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pictures to train on, and new ones to test on: of the letters, words spread evenly; of a file, its pictures and none."""
    if options.pictures == "letters":
        options.scale = 2 if options.scale is None else options.scale
        n = 10 if options.images is None else options.images
        number_of_words = len(load_letters().X)
        if not 1 <= n <= number_of_words // 2:
            raise ValueError(f"--images: expected 1..{number_of_words // 2} words, got {n}")
        words = np.arange(2 * n) * number_of_words // (2 * n)
        return word_pictures(words[::2], options.scale), word_pictures(words[1::2], options.scale)
    if options.scale is not None:
        raise ValueError("--scale has no effect with a file of pictures")
    pictures = read_pictures(options.pictures, most_bytes=options.most_bytes)
    n = len(pictures) if options.images is None else options.images
    if not 1 <= n <= len(pictures):
        raise ValueError(f"--images: {options.pictures} has {len(pictures)} pictures, got {n}")
    return pictures[:n], []


def _to_restore(options: argparse.Namespace, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """The noisy picture, and the clean one where it is known."""
    if options.noisy != "letters":
        for name in ("words", "noise", "rng"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name} has no effect with a noisy picture of your own")
        noisy = read_picture(options.noisy, most_bytes=options.most_bytes)
        clean = None if options.clean is None else read_picture(options.clean, most_bytes=options.most_bytes)
        if clean is not None and clean.shape != noisy.shape:
            raise ValueError(f"{options.clean}: expected shape {noisy.shape} as {options.noisy}, got {clean.shape}")
        return noisy, clean
    if options.clean is not None:
        raise ValueError("--clean has no effect with letters, which are clean before noise is added")
    rng = np.random.default_rng(1 if options.rng is None else options.rng)
    scale, words = info.get("scale") or 2, 6 if options.words is None else options.words
    clean = page(word_pictures(rng.integers(0, len(load_letters().X), words), scale), 2 * scale)
    return noisy_copy(clean, info["noise"] if options.noise is None else options.noise, rng), clean


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
    """Share of wrong pixels before and after."""
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


def _positive(text: str) -> int:
    value = count(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text}")
    return value
