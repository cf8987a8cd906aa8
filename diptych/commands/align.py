"""``align``: learn from examples which strings of two lists belong together, and align new lists."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from diptych.commands.jobs import accuracy_line, spread
from diptych.commands.options import Saved, Task, Training, argument, flag, option
from diptych.commands.output import Report, curve, trained
from diptych.commands.show import checked, loaded, show_of
from diptych.commands.solvers import settings_of, solve, solver_options
from diptych.files.pairs import FEATURES, PairExample, load_pairs, pair_features, read_lines
from diptych.files.sources import named
from diptych.metrics import position_accuracy, sequence_accuracy
from diptych.pictures import plots

OPTIMIZERS = ("bcfw",)
JOB: dict[str, Any] = {"lam": 0.01, "epochs": 100, "tol": 0.01, "rng": 0}
CHECK = checked("align train", "AlignmentModel", features=FEATURES)


class Train(Training):
    """Train on examples, by block-coordinate Frank-Wolfe on the structural hinge."""

    pairs: str = argument("'names', or a file of examples, text or JSON (see diptych/files/pairs.py)")
    hold_out: int | None = option("data", "test on every N-th example, train on the others", metavar="N")
    null: bool = option("model", "leave no string of the shorter list alone", "--no-null", action="store_false")
    rng: int | None = flag()
    encoding: str | None = flag()
    lam: float | None = flag(f"default: {JOB['lam']}")
    epochs: int | None = flag(f"default: {JOB['epochs']}")
    tol: float | None = flag(f"default: {JOB['tol']}")
    solver: dict[str, Any] = solver_options(OPTIMIZERS)

    def run(self, panel: ModuleType) -> Report:
        training = spread(load_pairs(self.pairs, encoding=self.encoding), self.limit)
        test, every = list[PairExample](), self.hold_out
        if every is not None:  # every N-th example is for testing
            if not 2 <= every <= len(training):
                expected = f"2..{len(training)}, the number of examples"
                raise ValueError(f"--hold-out: expected {expected}, got {every}")
            test = training[every - 1 :: every]
            training = [example for i, example in enumerate(training, 1) if i % every]
        if not training:
            raise ValueError(f"{self.pairs}: no examples to train on")
        for use, examples in (("to train on", training), ("to test on", test)):
            if examples:
                _check_scorable(self.pairs, examples, use)
        for example in [] if self.null else training:
            aligned = sum(column >= 0 for column in example.columns)
            if aligned < min(len(example.left), len(example.right)):
                place = example.source.at(int(np.argmin(example.columns)))
                raise ValueError(f"{place}: the example leaves strings of both lists alone; --no-null asks for none")
        started = time.perf_counter()
        model = panel.AlignmentModel(len(FEATURES), null=self.null)
        objective = panel.StructuralHinge(model, _packed(model, training))
        job = settings_of(self, JOB, "bcfw", OPTIMIZERS)
        what = {"pairs": self.pairs, "examples": len(training), "null": self.null, "job": job}
        info = {"pairs": self.pairs, "features": list(FEATURES), **job}
        run = partial(solve, panel, "bcfw", objective, **job)
        result, report = trained(panel, self, what, job["epochs"], run, model, info)
        seconds, names = time.perf_counter() - started, [*FEATURES, *(["no partner"] if self.null else [])]
        weights = dict(zip(names, result.x.tolist(), strict=True))
        report |= {"seconds": seconds, "weights": weights, "train": _accuracy(model, result.x, training)}
        report["test"] = _accuracy(model, result.x, test) if test else None
        gap = f"within {result.certificate:.3g} of the optimum"
        lines = [
            f"{len(training)} examples of {self.pairs}: objective {result.fun:.6f}, {gap}, {seconds:.2f} seconds",
            *(f"  {name:18} {weight:8.3f}" for name, weight in weights.items()),
            accuracy_line("train", report["train"]),
            *([accuracy_line("test", report["test"])] if test else []),
        ]
        return Report(report, lines, curve(panel, result, f"hinge, bcfw, lam = {job['lam']:g}"))


class Evaluate(Saved):
    """The share of strings with the right partner, by a saved model."""

    pairs: str = argument("'names', or a file of examples")
    limit: int | None = flag()
    encoding: str | None = flag()
    most_bytes: int = flag()

    def run(self, panel: ModuleType) -> Report:
        model, w, _ = loaded(panel, self, CHECK)
        examples = spread(load_pairs(self.pairs, encoding=self.encoding), self.limit)
        _check_scorable(self.pairs, examples, "to score")
        scores = _accuracy(model, w, examples)
        report = {"pairs": self.pairs, "examples": len(examples), "accuracy": scores}
        return Report(report, [accuracy_line(f"{len(examples)} examples:", scores)])


class Predict(Saved):
    """Align two lists, a string a line, by a saved model."""

    left: str = argument("text file")
    right: str = argument("text file")
    encoding: str | None = flag()
    most_bytes: int = flag()
    out: str | None = flag()
    limit: int | None = flag("of the strings on the left")
    plot: str | None = flag("the matrix of scores, the pairs marked")

    def run(self, panel: ModuleType) -> Report:
        model, w, _ = loaded(panel, self, CHECK)
        left, right = (read_lines(path, encoding=self.encoding) for path in (self.left, self.right))
        left = spread(left, self.limit)
        data = model.pack([pair_features(left, right)])
        scores = np.asarray(model.scores(data, np.array([0]), w).values)[:, : len(right)]
        (columns,) = model.predict(data, None, w)
        pairs = [(int(i), int(columns[i])) for i in np.flatnonzero(columns >= 0)]
        others = sorted(set(range(len(right))) - set(columns.tolist()))
        alone = {"left": np.flatnonzero(columns < 0).tolist(), "right": others}
        report: dict[str, Any] = {"left": left, "right": right, "pairs": pairs}
        report |= {"scores": [float(scores[pair]) for pair in pairs], "alone": alone}
        lines = [f"{left[i]}\t{right[j]}" for i, j in pairs]
        lines += [f"{left[i]}\t" for i in alone["left"]] + [f"\t{right[j]}" for j in alone["right"]]
        picture = partial(plots.alignment, left=left, right=right, scores=scores, columns=columns)
        return Report(report, lines, picture, out=self.out)


def _check_scorable(path: str, examples: Sequence[PairExample], what: str) -> None:
    if not any(len(example.left) for example in examples):
        raise ValueError(f"{path}: no string on the left of the examples {what}")


def _packed(model: Any, examples: Sequence[PairExample]) -> Any:
    with named(examples):
        return model.pack([pair_features(e.left, e.right) for e in examples], [e.columns for e in examples])


def _accuracy(model: Any, w: np.ndarray, examples: Sequence[PairExample]) -> dict[str, float]:
    """The shares of left strings with the right partner (or rightly none), and of examples without a mistake."""
    truth, predicted = [e.columns for e in examples], model.predict(_packed(model, examples), None, w)
    return {"string": position_accuracy(truth, predicted), "example": sequence_accuracy(truth, predicted)}


TASK = Task(
    "align",
    "learn to align lists of strings, and align them",
    "Learn from examples which strings of two lists belong together (train), score a model on others (evaluate), align "
    "new lists (predict), and see what a model holds (show). The features of a pair of strings: "
    f"{', '.join(FEATURES)}; see diptych/files/pairs.py.",
    (Train, Evaluate, Predict, show_of(CHECK)),
)
