"""``align``: learn from examples which strings of two lists belong together, and align new lists."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.jobs import limited
from diptych.commands.options import TRAINING, add_flags, add_task, count
from diptych.commands.output import announce_compilation, finish, opening, print_report, trained, writable
from diptych.commands.show import add_show
from diptych.commands.solvers import add_solver, frank_wolfe_job, solve
from diptych.files.models import load_model
from diptych.files.pairs import FEATURES, PairExample, load_pairs, pair_features, read_lines
from diptych.metrics import position_accuracy, sequence_accuracy
from diptych.pictures import plots

__all__ = ["add"]


OPTIMIZERS = ("bcfw",)
JOB: dict[str, Any] = {"lam": 0.01, "epochs": 100, "tol": 0.01, "rng": 0}


def add(commands: Any) -> None:
    """Add the command ``align`` to the subparsers of the command line."""
    action = add_task(commands, "align", "learn to align two lists of strings, and align them",
        "Learn from examples which strings of two lists belong together (train), score a model on others "
        "(evaluate), align new lists (predict), and see what a model holds (show). The features of a "
        f"pair of strings: {', '.join(FEATURES)}; see diptych/files/pairs.py.")  # fmt: skip
    sub = action("train", _train, "train on examples, by block-coordinate Frank-Wolfe on the structural hinge")
    sub.add_argument("pairs", help="'names', or a file of examples, text or JSON (see diptych/files/pairs.py)")
    sub.option("data", "--hold-out", type=count, metavar="N", help="test on every N-th example, train on the others")
    sub.option("model", "--no-null", dest="null", action="store_false",
        help="leave no string of the shorter list alone")  # fmt: skip
    add_flags(sub, *TRAINING, "rng", "encoding", **{name: f"default: {JOB[name]}" for name in ("lam", "epochs", "tol")})
    add_solver(sub, OPTIMIZERS)

    sub = action("evaluate", _evaluate, "the share of strings with the right partner, by a saved model")
    sub.add_argument("model", help="a file written by align train --save")
    sub.add_argument("pairs", help="'names', or a file of examples")
    add_flags(sub, "limit", "encoding", "most_bytes")

    sub = action("predict", _predict, "align two lists, a string a line, by a saved model")
    sub.add_argument("model", help="a file written by align train --save")
    sub.add_argument("left", help="text file")
    sub.add_argument("right", help="text file")
    add_flags(
        sub,
        "encoding",
        "most_bytes",
        "out",
        limit="of the strings on the left",
        plot="the matrix of scores, the pairs marked",
    )

    add_show(action, "align train", _check_kind)


def _train(panel: ModuleType, options: argparse.Namespace) -> bool:
    training, test = _split(_read(options), options.hold_out)
    if not training:
        raise ValueError(f"{options.pairs}: no examples to train on")
    for use, examples in (("to train on", training), ("to test on", test)):
        if examples:
            _check_scorable(options.pairs, examples, use)
    for place, example in enumerate([] if options.null else training, start=1):
        aligned = sum(column >= 0 for column in example.columns)
        if aligned < min(len(example.left), len(example.right)):
            raise ValueError(
                f"{options.pairs}: training example {place} leaves strings of both lists alone; --no-null asks for none"
            )
    writable(options.save, options.log, options.checkpoint, options.plot)
    announce_compilation(panel, options.quiet)
    started = time.perf_counter()
    model = panel.AlignmentModel(len(FEATURES), null=options.null)
    objective = panel.StructuralHinge(model, _packed(model, training))
    job = frank_wolfe_job(options, JOB)
    what = {"pairs": options.pairs, "examples": len(training), "null": options.null, "job": job}
    more = {"checkpoint": options.checkpoint, "resume": options.resume, **job}
    info = {"pairs": options.pairs, "features": list(FEATURES), **job}
    run = partial(solve, panel, "bcfw", objective, **more)
    result, report = trained(panel, options, what, job["epochs"], run, model, info)
    names = [*FEATURES, *(["no partner"] if options.null else [])]
    report |= {
        "seconds": time.perf_counter() - started,
        "weights": dict(zip(names, result.x.tolist(), strict=True)),
        "train": _accuracy(model, result.x, training),
        "test": _accuracy(model, result.x, test) if test else None,
    }
    lines = [
        f"{len(training)} examples of {options.pairs}: objective {result.fun:.6f}, within {result.certificate:.3g} "
        "of the optimum, "
        f"{report['seconds']:.2f} seconds",
        *(f"  {name:18} {weight:8.3f}" for name, weight in report["weights"].items()),
        _accuracy_line("train", report["train"]),
        *([_accuracy_line("test", report["test"])] if test else []),
    ]
    return finish(options, report, lines, {panel.__name__: result.history}, f"hinge, bcfw, lam = {job['lam']:g}")


def _evaluate(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w = _load(panel, options)
    examples = _read(options)
    _check_scorable(options.pairs, examples, "to score")
    announce_compilation(panel, options.quiet)
    scores = _accuracy(model, w, examples)
    report = opening(panel, options, model=str(options.model), pairs=options.pairs, examples=len(examples))
    print_report(options, report | {"accuracy": scores}, [_accuracy_line(f"{len(examples)} examples:", scores)])


def _predict(panel: ModuleType, options: argparse.Namespace) -> None:
    model, w = _load(panel, options)
    left, right = (read_lines(path, encoding=options.encoding) for path in (options.left, options.right))
    left = [left[i] for i in limited(len(left), options.limit)]
    writable(options.out, options.plot)
    announce_compilation(panel, options.quiet)
    data = model.pack([pair_features(left, right)])
    scores = np.asarray(model.scores(data, np.array([0]), w).values)[:, : len(right)]
    (columns,) = model.predict(data, None, w)
    pairs = [(int(i), int(columns[i])) for i in np.flatnonzero(columns >= 0)]
    alone = {
        "left": np.flatnonzero(columns < 0).tolist(),
        "right": sorted(set(range(len(right))) - set(columns.tolist())),
    }
    report = opening(panel, options, model=str(options.model), left=left, right=right, pairs=pairs)
    report |= {"scores": [float(scores[pair]) for pair in pairs], "alone": alone}
    if options.plot:
        plots.alignment(options.plot, left, right, scores, columns)
        report["plot"] = str(options.plot)
    lines = [f"{left[i]}\t{right[j]}" for i, j in pairs]
    lines += [f"{left[i]}\t" for i in alone["left"]] + [f"\t{right[j]}" for j in alone["right"]]
    print_report(options, report, lines, options.out)


def _read(options: argparse.Namespace) -> list[PairExample]:
    examples = load_pairs(options.pairs, encoding=options.encoding)
    return [examples[i] for i in limited(len(examples), options.limit)]


def _load(panel: ModuleType, options: argparse.Namespace) -> tuple[Any, np.ndarray]:
    model, w, info = load_model(options.model, panel, most_bytes=options.most_bytes)
    _check_kind(options.model, model, info)
    return model, w


def _check_kind(path: str, model: Any, info: dict[str, Any]) -> None:
    if type(model).__name__ != "AlignmentModel" or info.get("features") != list(FEATURES):
        raise ValueError(f"{path}: expected a model of align train of this version, got a {type(model).__name__}")


def _check_scorable(path: str, examples: Sequence[PairExample], what: str) -> None:
    if not any(len(example.left) for example in examples):
        raise ValueError(f"{path}: no string on the left of the examples {what}")


def _split(examples: list[PairExample], every: int | None) -> tuple[list[PairExample], list[PairExample]]:
    """(train, test): every N-th example is for testing; none if ``every`` is None."""
    if every is None:
        return examples, []
    if not 2 <= every <= len(examples):
        raise ValueError(f"--hold-out: expected 2..{len(examples)}, the number of examples, got {every}")
    return [e for i, e in enumerate(examples) if (i + 1) % every], examples[every - 1 :: every]


def _packed(model: Any, examples: Sequence[PairExample]) -> Any:
    return model.pack([pair_features(e.left, e.right) for e in examples], [e.columns for e in examples])


def _accuracy(model: Any, w: np.ndarray, examples: Sequence[PairExample]) -> dict[str, float]:
    """The shares of left strings with the right partner (or rightly none), and of examples without a mistake."""
    truth, predicted = [e.columns for e in examples], model.predict(_packed(model, examples), None, w)
    return {"string": position_accuracy(truth, predicted), "example": sequence_accuracy(truth, predicted)}


def _accuracy_line(name: str, scores: dict[str, float]) -> str:
    return f"{name:5} accuracy by string {100 * scores['string']:.2f} %, by example {100 * scores['example']:.2f} %"
