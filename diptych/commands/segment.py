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

from diptych.commands.jobs import spread
from diptych.commands.options import Saved, Task, Training, argument, flag, number, option, positive, refuse
from diptych.commands.output import Report, curve, trained
from diptych.commands.show import checked, loaded, show_of
from diptych.commands.solvers import settings_of, solve, solver_options
from diptych.pictures import grids, plots
from reference.datasets import load_letters
from reference.files import save_bytes

OPTIMIZERS = ("bcfw",)
FEATURES = [*grids.NODE_FEATURES, *grids.EDGE_FEATURES]
JOB: dict[str, Any] = {"lam": 10.0, "epochs": 60, "tol": 0.02, "rng": 0}


def _share(text: str) -> float:
    value = number(text)
    if value > 0.5:
        raise argparse.ArgumentTypeError(f"expected a share of the pixels in 0..0.5, got {text}")
    return value


CLEAN = "'letters' (handwritten words), or a file of clean pictures, such as an .npz with one an array"


class Train(Training):
    """Train on clean pictures and noisy copies, by Frank-Wolfe on the structural hinge."""

    limit: int | None = flag("default: 10 words; all of a file")
    pictures: str = argument(CLEAN)
    noise: float = option("data", "share of pixels flipped in the copies (default: 0.15)", type=_share, default=0.15)
    scale: int | None = option("data", "letters: scale of each pixel to N x N pixels (default: 2)", type=positive,
        rare=True)  # fmt: skip
    connectivity: int = option("model", "number of neighbours of a pixel (default: 4)", type=int, choices=(4, 8),
        default=4)  # fmt: skip
    most_bytes: int = flag()
    rng: int | None = flag()
    lam: float | None = flag("default: 10, next to wrong pixels a picture")
    epochs: int | None = flag(f"default: {JOB['epochs']}")
    tol: float | None = flag(f"default: {JOB['tol']}")
    solver: dict[str, Any] = solver_options(OPTIMIZERS)

    def run(self, panel: ModuleType) -> Report:
        training, test = _clean_pictures(self, self.scale)
        scale = 2 if self.scale is None and self.pictures == "letters" else self.scale
        job = settings_of(self, JOB, "bcfw", OPTIMIZERS)
        rng = np.random.default_rng(job["rng"])
        noisy, noisy_test = ([grids.noisy_copy(x, self.noise, rng) for x in some] for some in (training, test))
        started = time.perf_counter()
        model = panel.SegmentationModel(len(grids.NODE_FEATURES), len(grids.EDGE_FEATURES))
        images = [grids.features(picture, self.connectivity) for picture in noisy]
        objective = panel.StructuralHinge(model, model.pack(images, [picture.ravel() for picture in training]))
        what = {"pictures": self.pictures, "job": job}
        settings = {"noise": self.noise, "connectivity": self.connectivity, "scale": scale}
        info = {"pictures": self.pictures, "features": FEATURES, **settings, **job}
        run = partial(solve, panel, "bcfw", objective, **job)
        result, report = trained(panel, self, what, job["epochs"], run, model, info)
        w, pixels = np.asarray(result.x), sum(picture.size for picture in training)
        gap = float(result.certificate) / result.fun if result.fun > 0 else 0.0
        report |= {**settings, "images": len(training), "pixels": pixels, "relative_gap": gap}
        report |= {"seconds": time.perf_counter() - started, "weights": dict(zip(FEATURES, w.tolist(), strict=True))}
        for name, clean, copies in (("train", training, noisy), ("test", test, noisy_test)):
            restored = _restored(model, w, copies, self.connectivity) if clean else []
            report[name] = _wrong(clean, copies, restored) if clean else None
        quality = f"within {100 * gap:.3g} % of the optimum, {result.nit} epochs, {report['seconds']:.2f} seconds"
        lines = [
            f"{len(training)} pictures of {self.pictures}, {pixels} pixels: objective {result.fun:.3f}, {quality}",
            *(f"  {name:14} {weight:8.3f}" for name, weight in report["weights"].items()),
            _error_line("pictures trained on", report["train"]),
            *([_error_line("new pictures", report["test"])] if test else []),
        ]
        return Report(report, lines, curve(panel, result, f"hinge, bcfw, lam = {job['lam']:g}"))


class Evaluate(Saved):
    """The share of wrong pixels in noisy copies before and after a saved model has restored them."""

    pictures: str = argument(CLEAN)
    noise: float | None = option("data", "share of pixels flipped (default: as in training)", type=_share)
    most_bytes: int = flag()
    rng: int | None = flag()
    limit: int | None = flag("default: 10 words; all of a file")

    def run(self, panel: ModuleType) -> Report:
        model, w, info = loaded(panel, self, _check_info)
        pictures, others = _clean_pictures(self, info.get("scale") if self.pictures == "letters" else None)
        pictures = others or pictures  # of the letters, use words that were not trained on
        rng, noise = np.random.default_rng(self.rng or 0), info["noise"] if self.noise is None else self.noise
        noisy = [grids.noisy_copy(picture, noise, rng) for picture in pictures]
        error = _wrong(pictures, noisy, _restored(model, w, noisy, info["connectivity"]))
        report = {"pictures": self.pictures, "images": len(pictures), "noise": noise, "error": error}
        return Report(report, [_error_line(f"{len(pictures)} pictures", error)])


class Predict(Saved):
    """Restore noisy pictures by a saved model."""

    noisy: str = argument("a noisy picture, an .npz of several, or 'letters': a page of words, to which noise is added")
    clean: str | None = option("data", "the same without noise, to count the wrong pixels", metavar="FILE")
    words: int | None = option("data", "letters: words on the page (default: 6)", type=positive)
    noise: float | None = option("data", "letters: share of pixels flipped (default: as in training)", type=_share)
    limit: int | None = flag()
    most_bytes: int = flag()
    rng: int | None = flag()
    out: str | None = flag("the restored picture: .npy, .pbm, .pgm, .png; .npz of several")
    plot: str | None = flag("clean, where known, noisy and restored")

    def run(self, panel: ModuleType) -> Report:
        model, w, info = loaded(panel, self, _check_info)
        noisy, clean = self._to_restore(info)
        if self.plot and len(noisy) > 1:
            raise ValueError(f"--plot: expected one picture, got {len(noisy)}; --limit 1 takes the first")
        if self.out and len(noisy) > 1 and Path(self.out).suffix.lower() != ".npz":
            has = f"as {self.noisy} has {len(noisy)} pictures"
            raise ValueError(f"{self.out}: expected a name that ends with .npz, {has}")
        if self.out and len(noisy) == 1:
            grids.writable_picture(self.out)
        started = time.perf_counter()
        restored = _restored(model, w, noisy, info["connectivity"])
        seconds = time.perf_counter() - started
        each: list[dict[str, Any]] = []
        for x, y in zip(noisy, restored, strict=True):
            each.append({"height": x.shape[0], "width": x.shape[1], "turned": int(np.sum(y != x))})
        error = None if clean is None else _wrong(clean, noisy, restored)
        report: dict[str, Any] = {"noisy": self.noisy, "seconds": seconds, "error": error}
        if self.out:
            if len(restored) == 1:
                grids.write_picture(self.out, restored[0])
            else:
                content = io.BytesIO()
                np.savez(content, *(picture.astype(np.uint8) for picture in restored))
                save_bytes(self.out, content.getvalue())
            report["out"] = str(self.out)
        else:
            for picture, labels in zip(each, restored, strict=True):
                picture["restored"] = ["".join(map(str, row)) for row in labels.tolist()]
        report |= each[0] if len(each) == 1 else {"pictures": each}
        sizes = " and ".join(dict.fromkeys(f"{picture['width']} x {picture['height']}" for picture in each))
        several = "" if len(each) == 1 else f"{len(each)} pictures of "
        turned = sum(picture["turned"] for picture in each)
        lines = [
            f"{self.noisy}: {several}{sizes} pixels, {turned} turned over in {seconds:.2f} seconds",
            *([] if clean is None else [_error_line("this picture" if len(each) == 1 else "all", report["error"])]),
            *(f"{what} {file}" for what, file in (("out", self.out), ("plot", self.plot)) if file),
        ]
        shown = ({} if clean is None else {"clean": clean[0]}) | {"noisy": noisy[0], "restored": restored[0]}
        return Report(report, lines, partial(plots.pictures, shown=shown))

    def _to_restore(self, info: dict[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray] | None]:
        """The noisy pictures, and the clean ones or None."""
        if self.noisy != "letters":
            refuse(vars(self), ("words", "noise", "rng"), "with a noisy picture of your own")
            noisy = _some(self, self.noisy)
            clean = None if self.clean is None else _some(self, self.clean)
            sizes = [[picture.shape for picture in pictures or ()] for pictures in (noisy, clean)]
            if clean is not None and sizes[0] != sizes[1]:
                expected, got = (", ".join(map(str, each)) for each in sizes)
                raise ValueError(f"{self.clean}: expected shape {expected} as {self.noisy}, got {got}")
            return noisy, clean
        refuse(vars(self), ["limit"], "with letters, which are one page; --words sets the words on it")
        refuse(vars(self), ["clean"], "with letters, which are clean before noise is added")
        rng = np.random.default_rng(1 if self.rng is None else self.rng)
        scale, words = info.get("scale") or 2, 6 if self.words is None else self.words
        drawn = grids.page(grids.word_pictures(rng.integers(0, len(load_letters().X), words), scale), 2 * scale)
        return [grids.noisy_copy(drawn, info["noise"] if self.noise is None else self.noise, rng)], [drawn]


def _check_info(path: str, model: Any, info: dict[str, Any]) -> None:
    """Raise ValueError for a model of another kind, and for a file with missing or invalid training settings."""
    checked("segment train", "SegmentationModel", features=FEATURES)(path, model, info)
    for name, expected, right in (
        ("connectivity", "4 or 8", info.get("connectivity") in (4, 8)),
        ("noise", "a share in 0..0.5", type(info.get("noise")) in (int, float) and 0 <= info["noise"] <= 0.5),
        ("scale", "an integer in 1..100, or null", info.get("scale") is None or info["scale"] in range(1, 101)),
    ):
        if not right:
            raise ValueError(f"{path}: info: {name}: expected {expected}, got {info.get(name)!r:.80}")


def _clean_pictures(command: Train | Evaluate, scale: int | None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Pictures to train on and others to test on: words spread evenly over the letters; of a file all and none."""
    if command.pictures == "letters":
        scale = 2 if scale is None else scale
        n, every = 10 if command.limit is None else command.limit, len(load_letters().X)
        if not 1 <= n <= every // 2:
            raise ValueError(f"--limit: expected 1..{every // 2} words, got {n}")
        words = np.arange(2 * n) * every // (2 * n)
        return grids.word_pictures(words[::2], scale), grids.word_pictures(words[1::2], scale)
    if scale is not None:
        raise ValueError("--scale has no effect with a file of pictures")
    return _some(command, command.pictures), []


def _some(command: Train | Evaluate | Predict, path: str) -> list[np.ndarray]:
    """The pictures of a file that --limit selects."""
    pictures = grids.read_pictures(path, most_bytes=command.most_bytes)
    n = len(pictures) if command.limit is None else command.limit
    if not 1 <= n <= len(pictures):
        raise ValueError(f"--limit: {path} has {len(pictures)} pictures, got {n}")
    return spread(pictures, n)


def _restored(model: Any, w: np.ndarray, noisy: Sequence[np.ndarray], connectivity: int) -> list[np.ndarray]:
    """The model's best labelling of each noisy picture, as a picture."""
    labels = model.predict(model.pack([grids.features(picture, connectivity) for picture in noisy]), None, w)
    return [y.reshape(picture.shape) for y, picture in zip(labels, noisy, strict=True)]


def _wrong(clean: list[np.ndarray], noisy: list[np.ndarray], restored: list[np.ndarray]) -> dict[str, float]:
    """The share of wrong pixels before and after restoration."""
    pixels, copies = sum(picture.size for picture in clean), {"before": noisy, "after": restored}
    wrong = {when: sum(int(np.sum(x != y)) for x, y in zip(clean, some, strict=True)) for when, some in copies.items()}
    return {when: count / pixels for when, count in wrong.items()}


def _error_line(what: str, error: dict[str, float]) -> str:
    return f"wrong pixels, {what}: {100 * error['before']:.2f} % before, {100 * error['after']:.2f} % after"


TASK = Task(
    "segment",
    "learn to take the noise off binary pictures, and take it off",
    "Learn from clean binary pictures and noisy copies of them which pixels are ink (train), score a model on other "
    "pictures (evaluate), restore noisy ones (predict), by minimum cuts, and see what a model holds (show). Picture "
    "files: .npy and .npz (zeros and ones), .pbm, .pgm, .png (dark is ink).",
    (Train, Evaluate, Predict, show_of(_check_info)),
)
