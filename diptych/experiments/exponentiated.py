"""CRF taggers by exponentiated gradient: ``diptych reproduce exponentiated-gradient PATH_TO_conll2000.zip [--entities
PATH_TO_conll2002.zip] [--quick]``.

The objective is the sum of the losses + ||w||^2 (lam = 2/n), with weights for the pairs of the training data. Prints
processor seconds on one core from packed data until the gap is 1e-4 of the objective (evaluated every third epoch),
epochs, objective, gap, and chunk F1 on the test data. For comparing machines it also prints the times of a full
gradient and of a sort of 10^6 numbers.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from diptych.commands.options import above_zero
from diptych.experiments.clock import Line, least_seconds, timed
from diptych.experiments.shell import ended, parsed
from diptych.experiments.tagging import chunk_f1, corpora, say, tasks
from diptych.files.columns import load_columns


def figures(what: str, train: str, test: str, tol: float, epochs: int) -> Iterator[Line]:
    """Yield the name, the number and the unit of each measurement."""
    training = load_columns(train)
    Y = [sentence["label"] for sentence in training]
    model = accelerated.TaggingModel.of(training, Y, what)
    data = model.pack(training, Y)
    loss = accelerated.LogLoss(model, data)
    yield f"{what}: weights", model.size, ""
    few = training[:5], Y[:5]
    accelerated.exponentiated_gradient(accelerated.LogLoss(model, model.pack(*few)), lam=1.0, epochs=1)  # compiles
    yield f"{what}: full gradient", least_seconds(lambda: loss.value_and_gradient(loss.zeros())), "s"
    options: dict[str, Any] = {"tol": tol, "epochs": epochs, "evaluate_every": 3, "rng": 0}
    seconds, result = timed(lambda: accelerated.exponentiated_gradient(loss, lam=2 / data.n, **options))
    yield f"{what}: to a gap of {tol:g} of the objective", seconds, "s"
    yield f"{what}: of them in epochs", result.history[-1].seconds, "s (by the clock)"
    yield f"{what}: epochs", result.nit, ""
    yield f"{what}: oracle calls", result.oracle_calls / data.n, "a sentence"
    yield f"{what}: objective", result.fun * data.n, ""
    yield f"{what}: gap", result.certificate * data.n, ""
    yield f"{what}: chunk F1", chunk_f1(model, result.x, load_columns(test)), "%"


def _machine() -> Iterator[Line]:
    numbers = np.random.default_rng(0).normal(size=10**6)
    yield "sort of 10^6 numbers", 1e3 * least_seconds(lambda: np.sort(numbers)), "ns a number"


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit status."""
    parser = corpora(name, __doc__)
    parser.quick("1 epoch, unless --epochs is given")
    parser.option("solver", "--tol", type=above_zero, default=1e-4,
        help="stop at this gap relative to the objective (default: 1e-4)")  # fmt: skip
    parser.number("solver", "--epochs", 60, "maximum number of epochs")
    options = parsed(parser, arguments, {"epochs": 1})
    return ended(parser, options, lambda: _run(options), options.out)


def _run(options: argparse.Namespace) -> None:
    set_num_threads(1)
    runs = (figures(*task, options.tol, options.epochs) for task in tasks(options))
    say(itertools.chain(_machine(), *runs), options.json, digits=6)
