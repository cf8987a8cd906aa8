"""Table 1 of Martins et al. (2010), handwriting:

    diptych reproduce mkl-table-1 [--quick] [--folds 0 1 ...] [--out FOLDER] [--json] [--workers 2]

Structural SVMs for the OCR letters with one kernel, with the average of several kernels, and with several kernels by
multiple kernel learning. They are trained on one fold for 20 epochs and tested on the other nine. For each
C = 1/(lam n), eta0 of eta0/sqrt(t) has the lowest objective after 5 epochs. The table has two accuracies: with the C
that is best on the test words, as in the paper (one C for all folds), and with the C that is best, for each fold, on a
held-out fifth of its words.

Writes handwriting.json (all numbers) and handwriting.png (the groups' weights over the epochs) into the current folder,
or that of --out. Finished folds are saved in folds.jsonl in that folder and are not measured again; delete that file to
measure again. The first run compiles kernels.

Kernels have a unit diagonal, as in the paper. The quadratic kernel has a constant of 1. The paper does not say how it
treats transitions; see --transitions.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from accelerated.models.kernel_sequence import KernelSequenceModel, KernelWeights
from diptych.commands.options import positive
from diptych.commands.output import announce_compilation, whole
from diptych.distributed import Runs
from diptych.experiments import shell
from diptych.experiments.results import load, timed
from diptych.experiments.sparse_data import handwritten_words
from diptych.pictures.plots import require_matplotlib, save_figure
from reference.datasets import Sequences
from reference.declared import choices_of
from reference.kernels import B1Spline, Explicit, Gaussian, Kernel, Linear, Mean, Polynomial, blocks
from reference.models.kernel_data import scaled
from reference.models.kernel_sequence import TRANSITIONS
from reference.online_mkl.training import mkl as learner

SINGLE = np.float32  # dtype of Gram matrices; sums are float64
PIECE = 512  # test positions at a time
HELD_OUT = 5  # every fifth word is held out


class Row(NamedTuple):
    """A line of Table 1: the names of its kernels, whether they are averaged to one, and the printed accuracy in %,
    deviation and seconds.
    """

    name: str
    parts: tuple[str, ...]
    averaged: bool
    paper: tuple[float, float, float]


ROWS = (
    Row("linear L", ("L",), False, (72.8, 4.4, 6)),
    Row("quadratic Q", ("Q",), False, (85.5, 0.3, 116)),
    Row("Gaussian G, sigma^2 = 5", ("G",), False, (84.1, 0.4, 123)),
    Row("average (L + Q + G)/3", ("L", "Q", "G"), True, (84.3, 0.3, 118)),
    Row("MKL b1 L + b2 Q + b3 G", ("L", "Q", "G"), False, (87.5, 0.4, 279)),
    Row("B1-spline B", ("B",), False, (75.4, 0.9, 8)),
    Row("average (L + B)/2", ("L", "B"), True, (83.0, 0.3, 15)),
    Row("MKL b1 L + b2 B", ("L", "B"), False, (85.2, 0.3, 15)),
)


class Settings(NamedTuple):
    """Grids and sizes; None for all words."""

    Cs: tuple[float, ...]
    etas: tuple[float, ...]
    epochs: int
    tuning_epochs: int
    transitions: str
    average: str
    train_words: int | None
    test_words: int | None


class Trained(NamedTuple):
    """A trained model of a row: weights, eta0, seconds, objective, norms."""

    weights: KernelWeights
    eta: float
    seconds: float
    objective: float
    norms: np.ndarray


def measure_fold(settings: Settings, fold: int) -> dict[str, dict[str, Any]]:
    """Train and test all rows on a fold; a record for each row, by name.

    For each C a row is trained on the whole fold, and on four fifths of its words; the held-out fifth chooses a C
    without the test words. The kernels' blocks for the test words are computed once for all rows and all C.
    """
    training, test = handwritten_words().split(fold, reverse=True)
    training, test = _some(training, settings.train_words), _some(test, settings.test_words)
    held = np.arange(len(training.X)) % HELD_OUT == HELD_OUT - 1
    part, held_out = training.take(np.flatnonzero(~held)), training.take(np.flatnonzero(held))
    kernels = kernels_of(training)
    records, models = dict[str, dict[str, Any]](), {}
    for row in ROWS:
        started = time.perf_counter()
        model = model_of(row, kernels, training.labels, settings)
        data = model.pack(training.X, training.Y, like=np.zeros(0, SINGLE))
        packed = time.perf_counter() - started
        trained = [fit(model, data, C, settings) for C in settings.Cs]
        models[row.name] = [(model, each) for each in trained]
        del data
        inner = model.pack(part.X, part.Y, like=np.zeros(0, SINGLE))
        chosen_by = [fit(model, inner, C, settings).weights for C in settings.Cs]
        records[row.name] = {
            "C": list(settings.Cs),
            "eta0": [each.eta for each in trained],
            "seconds": [packed + each.seconds for each in trained],
            "objective": [each.objective for each in trained],
            "norms": [each.norms.tolist() for each in trained],
            "load": load(),
            "held_out": [_share(model.predict(weights, held_out.X), held_out.Y) for weights in chosen_by],
        }
    for (name, number), accuracy in tested(kernels, models, training, test):
        records[name].setdefault("test", [0.0] * len(settings.Cs))[number] = accuracy
    return records


def kernels_of(training: Sequences) -> dict[str, Kernel]:
    """The kernels of Table 1; the training letters determine the spline's width."""
    rows = np.concatenate(training.X)
    return {"L": Linear(True), "Q": Polynomial(2), "G": Gaussian(5.0), "B": B1Spline.with_zeros(rows, 0.95)}


def model_of(row: Row, kernels: dict[str, Kernel], labels: Any, settings: Settings) -> KernelSequenceModel:
    """The model of a row. A linear kernel that is a group of its own becomes explicit features."""
    groups = [kernels[part] for part in row.parts]
    if row.averaged:
        groups = [Mean(groups)]
    explicit = [Explicit(True) if isinstance(group, Linear) else group for group in groups]
    return KernelSequenceModel(explicit, labels, transitions=settings.transitions)


def fit(model: KernelSequenceModel, data: Any, C: float, settings: Settings) -> Trained:
    """Train with the best eta0."""

    common = {"lam": 1 / (C * data.n), "average": settings.average, "rng": 0}

    def run(eta: float, epochs: int) -> Any:
        steps = accelerated.steps.InverseSqrt(eta)
        return whole(accelerated.mkl(model, data, step_size=steps, epochs=epochs, evaluate_every=epochs, **common))

    eta = min(settings.etas, key=lambda eta: run(eta, settings.tuning_epochs).fun)
    result = run(eta, settings.epochs)
    return Trained(result.x, eta, result.history[-1].seconds, result.fun, result.norms)


def tested(
    kernels: dict[str, Kernel], models: dict[str, Any], training: Sequences, test: Sequences
) -> Iterator[tuple[tuple[str, int], float]]:
    """The share of right letters of every model, by (row, number).

    A block of a kernel is multiplied once with the stacked coefficients of all models that use the kernel.
    """
    of_kernel: dict[str, list[tuple[int, np.ndarray]]] = {name: [] for name in kernels}
    every = [((row, k), *trained) for row, several in models.items() for k, trained in enumerate(several)]
    rows = np.concatenate(training.X).astype(SINGLE)
    for place, ((row, _), _, each) in enumerate(every):
        parts = next(line for line in ROWS if line.name == row)
        for name in parts.parts:
            A = each.weights.coefficients[0 if parts.averaged else parts.parts.index(name)]
            A = A / len(parts.parts) if parts.averaged else A
            if name == "L" and parts.averaged:
                A = scaled(rows).T @ A
            of_kernel[name].append((place, A))
    stacked = {name: np.concatenate([A for _, A in several], axis=1) for name, several in of_kernel.items()}
    X, L = np.concatenate(test.X).astype(SINGLE), len(test.labels)
    scores = np.zeros((len(every), len(X), L), SINGLE)
    for first in range(0, len(X), PIECE):
        x = X[first : first + PIECE]
        matrices = {"L": scaled(x), **dict(zip("QGB", blocks([kernels[name] for name in "QGB"], x, rows), strict=True))}
        for name, several in of_kernel.items():
            product = (matrices[name] @ stacked[name]).reshape(len(x), len(several), L)
            for number, (place, _) in enumerate(several):
                scores[place, first : first + PIECE] += product[:, number]
    offsets, truth = np.concatenate([[0], np.cumsum([len(x) for x in test.X])]), np.concatenate(test.Y)
    for place, (key, model, each) in enumerate(every):
        yield key, float(np.mean(model.decode(scores[place], offsets, each.weights) == truth))


def _some(data: Sequences, words: int | None) -> Sequences:
    """``words`` words, spread evenly, or all."""
    return data if words is None or words >= len(data.X) else data.take(np.arange(words) * len(data.X) // words)


def _share(predicted: list[np.ndarray], truth: list[np.ndarray]) -> float:
    return float(np.mean(np.concatenate(predicted) == np.concatenate(truth)))


def folds_measured(folds: Sequence[int], settings: Settings, kept: Path, executor: Any) -> list[dict[str, Any]]:
    """The folds' records, in their order. Folds in the file ``kept`` are not measured again."""

    def describe(fold: int, record: dict[str, Any]) -> str:
        return f"fold {fold}: " + ", ".join(f"{name} {100 * max(row['test']):.1f}" for name, row in record.items())

    task, key = partial(measure_fold, settings), lambda fold: [fold, settings._asdict()]
    return Runs(task, kept, executor, key=key, describe=describe).perform(folds)


CS = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
ETAS = (0.01, 0.1, 1.0, 10.0)
FIELDS = ("settings", "folds", "records")
QUICK = {"folds": [0, 1], "epochs": 4, "words": 40}
COLOURS = {"L": "C0", "Q": "C1", "G": "C2", "B": "C4", "transitions": "C3"}
COMPARED = {  # rows of MKL, and the rows that they are compared with
    "MKL b1 L + b2 Q + b3 G": ("linear L", "quadratic Q", "Gaussian G, sigma^2 = 5", "average (L + Q + G)/3"),
    "MKL b1 L + b2 B": ("linear L", "B1-spline B", "average (L + B)/2"),
}


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """Means and deviations over the folds in %: of each row, and of the differences between MKL and other rows on the
    same fold.
    """
    Cs, folds = report["settings"]["Cs"], report["records"]
    rows, best, inner = [], {}, {}
    for row in ROWS:
        test = 100 * np.array([fold[row.name]["test"] for fold in folds])  # (folds, Cs)
        chosen = int(np.argmax(test.mean(axis=0)))
        own = [int(np.argmax(fold[row.name]["held_out"])) for fold in folds]
        best[row.name], inner[row.name] = test[:, chosen], test[np.arange(len(folds)), own]
        line = {"kernel": row.name, "paper": list(row.paper), "best": _spread(best[row.name]), "C": Cs[chosen]}
        line |= {"held_out": _spread(inner[row.name]), "held_out_C": [Cs[c] for c in own]}
        line |= {"eta0": [fold[row.name]["eta0"][chosen] for fold in folds]}
        rows.append(line | {"seconds": float(np.mean([fold[row.name]["seconds"][chosen] for fold in folds]))})
    printed = {row.name: row.paper[0] for row in ROWS}
    differences = []
    for mkl, other in ((mkl, other) for mkl, others in COMPARED.items() for other in others):
        apart = {"best": _spread(best[mkl] - best[other]), "held_out": _spread(inner[mkl] - inner[other])}
        differences.append({"of": mkl, "to": other, "paper": round(printed[mkl] - printed[other], 1), **apart})
    return {"rows": rows, "differences": differences}


def _spread(x: np.ndarray) -> list[float]:
    return [float(np.mean(x)), float(np.std(x, ddof=1)) if len(x) > 1 else 0.0]


def table(report: dict[str, Any]) -> str:
    """The summary and the settings in Markdown."""
    content, settings = summary(report), report["settings"]
    head = ["kernel", "paper, %", "best C on test, %", "C", "held-out C, %", "seconds (paper)"]
    head = head if timed(report) else head[:-1]
    lines = shell.header(*head)
    for row in content["rows"]:
        mean, deviation, seconds = row["paper"]
        cells = [row["kernel"], f"{mean} ± {deviation}", _cell(row["best"]), f"{row['C']:g}", _cell(row["held_out"])]
        lines.append(shell.row(*[*cells, f"{row['seconds']:.2f} ({seconds:g})"][: len(head)]))
    compared = "letters right, difference fold by fold"
    lines += ["", *shell.header(compared, "paper (of means)", "best C", "held-out C")]
    for x in content["differences"]:
        differences = f"{x['paper']:+.1f}", _cell(x["best"], "+"), _cell(x["held_out"], "+")
        lines.append(shell.row(f"{x['of']} less {x['to']}", *differences))
    notes = f"{len(report['folds'])} folds, {settings['epochs']} epochs; {settings['average']} model; transitions: "
    notes += f"{settings['transitions']}; float32 Gram matrices"
    return "\n".join([*lines, "", f"{notes}\nkernels have a unit diagonal, the quadratic one a constant of 1"])


def _cell(x: Sequence[float], sign: str = "") -> str:
    return f"{x[0]:{sign}.1f} ± {x[1]:.1f}"


def draw(path: Path, report: dict[str, Any]) -> None:
    """The groups' shares of the sum of norms after each epoch, for both rows of MKL: means over the folds with one
    standard deviation.
    """
    figure = require_matplotlib()(figsize=(11, 4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    chosen = {row["kernel"]: report["settings"]["Cs"].index(row["C"]) for row in summary(report)["rows"]}
    rows = [row for row in ROWS if row.name in COMPARED]
    for axis, row in zip(axes, rows, strict=True):
        # (folds, epochs, groups)
        norms = np.array([fold[row.name]["norms"][chosen[row.name]] for fold in report["records"]])
        total = norms.sum(axis=2, keepdims=True)
        shares = norms / np.where(total > 0, total, 1.0)
        mean, deviation = shares.mean(axis=0), shares.std(axis=0)
        epochs = np.arange(1, len(mean) + 1)
        for group, name in enumerate([*row.parts, "transitions"][: mean.shape[1]]):
            share, spread, colour = mean[:, group], deviation[:, group], COLOURS[name]
            axis.plot(epochs, share, label=name, color=colour)
            axis.fill_between(epochs, share - spread, share + spread, color=colour, alpha=0.2, linewidth=0)
        axis.set(xlabel="epoch", title=f"{row.name}, C = {report['settings']['Cs'][chosen[row.name]]:g}")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.legend()
    axes[0].set(ylabel="share in the sum of norms")
    save_figure(figure, path)


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure, write and print; return the exit status."""
    parser = shell.Parser(name, __doc__)
    parser.quick("a test run (2 folds, 40 words to train on and 40 to test on, 4 epochs, two values of C and of eta0)")
    parser.option("data", "--folds", type=int, nargs="+", metavar="FOLD", default=list(range(10)),
        help="folds to train on (default: all ten)")  # fmt: skip
    parser.number("solver", "--epochs", 20, "epochs of each run")
    parser.option("data", "--words", type=positive,
        help="maximum number of training words, and of test words (default: all)")  # fmt: skip
    kinds = "transitions as a group of their own, as a part of each group, or without penalty (default: own)"
    parser.option("model", "--transitions", choices=TRANSITIONS, default="own", help=kinds)
    parser.option("solver", "--average", choices=choices_of(learner, "average"), default="last",
        help="use the last model or the average (default: last)")  # fmt: skip
    shell.add_workers(parser)
    shell.add_report_options(parser)
    options = shell.parsed(parser, arguments, QUICK)
    return shell.run_or_draw(parser, options, lambda: _run(options), SHOWN, "handwriting", FIELDS)


def _run(options: argparse.Namespace) -> None:
    if not set(options.folds) <= set(range(10)) or len(set(options.folds)) < len(options.folds):
        raise ValueError(f"--folds: expected different numbers in 0..9, got {' '.join(map(str, options.folds))}")
    Cs, etas = ((CS[1], CS[3]), ETAS[1:3]) if options.quick else (CS, ETAS)
    how, words = (options.transitions, options.average), (options.words, options.words)
    settings = Settings(Cs, etas, options.epochs, min(5, options.epochs), *how, *words)
    path = shell.output_folder(options) / "handwriting.json"
    kept = path.with_name("folds.jsonl")
    announce_compilation(accelerated)
    with shell.executor_of_one_thread(options) as executor:
        records = folds_measured(options.folds, settings, kept, executor)
    report = {"settings": settings._asdict(), "folds": options.folds, "versions": shell.versions(), "records": records}
    report = json.loads(json.dumps(report))
    SHOWN.kept(options, report, path, kept)


SHOWN = shell.Shown(draw, table, summary)
