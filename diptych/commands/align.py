"""``align``: learn which strings of two lists belong together, from examples, and say so of new lists."""

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
from diptych.files.pairs import FEATURES, PairExample, load_pairs, pair_features, read_lines
from diptych.metrics import position_accuracy, sequence_accuracy
from diptych.pictures import plots

__all__ = ["add"]


def add(commands: Any) -> None:
    """Add the command ``align`` to the subparsers of the command line."""
    whole = commands.add_parser(
        "align",
        help="learn to align two lists of strings, and align them",
        description="Learn from examples which strings of two lists belong together (train), and align new lists (apply). "
        f"The features of a pair of strings: {', '.join(FEATURES)}; see diptych/files/pairs.py.",
        allow_abbrev=False,
    )
    actions = whole.add_subparsers(required=True, metavar="ACTION")

    def action(name: str, run: Any, summary: str) -> argparse.ArgumentParser:
        sub: argparse.ArgumentParser = actions.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        sub.set_defaults(command=run, name=f"align {name}")
        sub.add_argument("--json", action="store_true", help="print everything as one JSON object")
        return sub

    sub = action("train", _train, "train on examples, by block-coordinate Frank-Wolfe on the structural hinge")
    sub.add_argument("pairs", help="'names', or a file of examples, text or JSON (see diptych/files/pairs.py)")
    sub.add_argument("--save", metavar="FILE", help="write the model (.npz, loads in either panel)")
    add_run(sub, start=False)
    sub.add_argument("--hold-out", type=count, metavar="N", help="test on every N-th example, train on the others")
    sub.add_argument("--no-null", dest="null", action="store_false", help="leave no string of the shorter list alone")
    sub.add_argument("--lam", type=number, default=0.01, help="weight of lam/2 ||w||^2 (default: 0.01)")
    sub.add_argument("--epochs", type=count, default=100, help="at most so many passes (default: 100)")
    sub.add_argument(
        "--tol", type=number, default=0.01, help="stop at this gap, relative to the objective (default: 0.01)"
    )
    sub.add_argument("--rng", type=large, default=0, help="seed of the orders (default: 0)")
    sub.add_argument("--quiet", action="store_true", help="no progress bar")

    sub = action("apply", _apply, "align two lists, a string a line, by a saved model")
    sub.add_argument("model", help="a file written by align train --save")
    sub.add_argument("left", help="text file")
    sub.add_argument("right", help="text file")
    add_most_bytes(sub)
    sub.add_argument("--plot", metavar="FILE", help="write the matrix of scores, the pairs marked (.png, .pdf or .svg)")


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    training, test = _split(load_pairs(options.pairs), options.hold_out)
    if not training:
        raise ValueError(f"{options.pairs}: no examples to train on")
    for what, examples in (("to train on", training), ("to test on", test)):
        if examples and not any(len(example.left) for example in examples):
            raise ValueError(f"{options.pairs}: no string on the left of the examples {what}")
    for place, example in enumerate([] if options.null else training, start=1):
        aligned = sum(column >= 0 for column in example.columns)
        if aligned < min(len(example.left), len(example.right)):
            raise ValueError(
                f"{options.pairs}: training example {place} leaves strings of both lists alone; --no-null asks for none"
            )
    writable(options.save, options.log, options.checkpoint, None)
    announce_compilation(panel)
    started = time.perf_counter()
    model = panel.AlignmentModel(len(FEATURES), null=options.null)
    objective = panel.StructuralHinge(model, _packed(model, training))
    job = {"lam": options.lam, "epochs": options.epochs, "tol": options.tol, "rng": options.rng}
    asked = {"pairs": options.pairs, "examples": len(training), "job": job}
    more = {"checkpoint": options.checkpoint, "resume": options.resume}
    result = watched(
        panel, options, asked, options.epochs, lambda callback: panel.bcfw(objective, callback=callback, **job, **more)
    )
    names = [*FEATURES, *(["no partner"] if options.null else [])]
    report = {
        "command": "align train",
        "panel": panel.__name__,
        "version": panel.__version__,
        "pairs": options.pairs,
        "examples": len(training),
        "null": options.null,
        "job": job,
        "objective": result.fun,
        "certificate": result.certificate,
        "success": result.success,
        "interrupted": result.interrupted,
        "message": result.message,
        "oracle_calls": result.oracle_calls,
        "seconds": time.perf_counter() - started,
        "weights": dict(zip(names, result.x.tolist(), strict=True)),
        "train": _accuracy(model, result.x, training),
        "test": _accuracy(model, result.x, test) if test else None,
    }
    if options.save:
        save_model(options.save, model, result.x, {"pairs": options.pairs, "features": list(FEATURES), **job})
        report["saved"] = str(options.save)
    lines = [
        f"{len(training)} examples of {options.pairs}: objective {result.fun:.6f}, within {result.certificate:.3g} of the optimum, "
        f"{report['seconds']:.2f} seconds",
        *(f"  {name:18} {weight:8.3f}" for name, weight in report["weights"].items()),
        _accuracy_line("train", report["train"]),
        *([_accuracy_line("test", report["test"])] if test else []),
        *([] if result.success else [f"not converged: {result.message}"]),
        *([f"saved {options.save}"] if options.save else []),
    ]
    print_report(options, report, lines)
    return result.interrupted


def _apply(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w, info = load_model(options.model, panel, most_bytes=options.most_bytes)
    if type(model).__name__ != "AlignmentModel" or info.get("features") != list(FEATURES):
        raise ValueError(
            f"{options.model}: expected a model of align train of this version, got a {type(model).__name__}"
        )
    left, right = read_lines(options.left), read_lines(options.right)
    writable(options.plot)
    announce_compilation(panel)
    data = model.pack([pair_features(left, right)])
    scores = np.asarray(model.scores(data, np.array([0]), w).values)[:, : len(right)]
    (columns,) = model.predict(data, None, w)
    pairs = [(int(i), int(columns[i])) for i in np.flatnonzero(columns >= 0)]
    alone = {
        "left": np.flatnonzero(columns < 0).tolist(),
        "right": sorted(set(range(len(right))) - set(columns.tolist())),
    }
    report = {
        "command": "align apply",
        "panel": panel.__name__,
        "model": str(options.model),
        "left": left,
        "right": right,
        "pairs": pairs,
        "scores": [float(scores[pair]) for pair in pairs],
        "alone": alone,
    }
    if options.plot:
        plots.alignment(options.plot, left, right, scores, columns)
        report["plot"] = str(options.plot)
    lines = [f"{left[i]}\t{right[j]}" for i, j in pairs]
    lines += [f"{left[i]}\t" for i in alone["left"]] + [f"\t{right[j]}" for j in alone["right"]]
    print_report(options, report, lines)


def _split(examples: list[PairExample], every: int | None) -> tuple[list[PairExample], list[PairExample]]:
    """(train, test): every N-th example to test on, or none."""
    if every is None:
        return examples, []
    if not 2 <= every <= len(examples):
        raise ValueError(f"--hold-out: expected 2..{len(examples)}, the number of examples, got {every}")
    return [e for i, e in enumerate(examples) if (i + 1) % every], examples[every - 1 :: every]


def _packed(model: Any, examples: Sequence[PairExample]) -> Any:
    return model.pack([pair_features(e.left, e.right) for e in examples], [e.columns for e in examples])


def _accuracy(model: Any, w: np.ndarray, examples: Sequence[PairExample]) -> dict[str, float]:
    """Share of left strings with the right partner (or rightly none), and of examples without a mistake."""
    truth, guess = [e.columns for e in examples], model.predict(_packed(model, examples), None, w)
    return {"string": position_accuracy(truth, guess), "example": sequence_accuracy(truth, guess)}


def _accuracy_line(name: str, scores: dict[str, float]) -> str:
    return f"{name:5} accuracy by string {100 * scores['string']:.2f} %, by example {100 * scores['example']:.2f} %"
