"""One fold of the handwriting experiment of Martins et al. (2010), section 4: every row of Table 1, trained on the fold
and tested on the other nine.

For each C a row is trained on the whole fold, and on four fifths of its words; the held-out fifth chooses a C without
the test words. eta0, of eta0/sqrt(t), has the lowest training objective after a few epochs. The kernels' blocks for the
test words are computed once for all rows and all C.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import accelerated
from accelerated.models.kernel_sequence import KernelSequenceModel, KernelWeights
from diptych.commands.output import whole
from diptych.distributed import Runs
from diptych.experiments.handwritten import handwritten_words
from reference.datasets import Sequences
from reference.kernels import B1Spline, Explicit, Gaussian, Kernel, Linear, Mean, Polynomial, blocks
from reference.models.kernel_data import scaled

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
    """Train and test all rows on a fold; a record for each row, by name."""
    training, test = handwritten_words().split(fold, reverse=True)
    training, test = _some(training, settings.train_words), _some(test, settings.test_words)
    held = np.arange(len(training.X)) % HELD_OUT == HELD_OUT - 1
    part, held_out = training.take(np.flatnonzero(~held)), training.take(np.flatnonzero(held))
    kernels = kernels_of(training)
    records, models = {}, {}
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
    every = [
        ((row, number), model, each) for row, several in models.items() for number, (model, each) in enumerate(several)
    ]
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

    return Runs(
        partial(measure_fold, settings), kept, executor, key=lambda fold: [fold, settings._asdict()], describe=describe
    ).perform(folds)
