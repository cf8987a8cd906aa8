"""Taggers on the shared tasks' data: ``diptych reproduce tagging PATH_TO_conll2000.zip [--entities
PATH_TO_conll2002.zip]``, one core.

The data are chunks of CoNLL-2000, and with --entities also named entities of the Spanish CoNLL-2002 data. The objective
is the sum of the losses + ||w||^2 (lam = 2/n). Prints:

- the seconds to find attributes, to pack, of a full gradient of the log loss, and of an epoch of SGD;
- tokens per second in tagging, and entries per token;
- chunk F1 on the test data after ten epochs of SGD;
- with ``--iterations N``: loss, seconds and chunk F1 after N iterations of L-BFGS;
- with --entities: the seconds of a pass of Casimir-SVRG over the first 2,000 sentences (hashed to 2^16 weights, top-5,
  lam = kappa = 1/n).
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from diptych.chunks import chunk_scores
from diptych.commands.options import count
from diptych.experiments.clock import Line, Pass, least_seconds, timed
from diptych.experiments.shell import Parser, add_print_options, ended
from diptych.files.columns import load_columns


def figures(what: str, train: str, test: str, templates: str, iterations: int) -> Iterator[Line]:
    """Yield the name, the number and the unit of each measurement."""
    training, held_out = load_columns(train), load_columns(test)
    Y = [sentence["label"] for sentence in training]
    seconds, model = timed(lambda: accelerated.TaggingModel.of(training, Y, templates))
    yield f"{what}: model of the training data", seconds, "s"
    yield f"{what}: weights", model.size, ""
    seconds, data = timed(lambda: model.pack(training, Y))
    yield f"{what}: packing", seconds, "s"
    yield f"{what}: entries", len(data.rows.indices) / data.rows.n, "a token"
    every = accelerated.TaggingModel(model.labels, model.templates, vocabulary=model.vocabulary)
    for pairs, one in (("observed", model), ("all", every)):
        packed = data if one is model else one.pack(training, Y)
        loss, w = accelerated.LogLoss(one, packed), 0.1 * np.random.default_rng(0).normal(size=one.size)
        yield f"{what}: full gradient, {pairs} pairs", least_seconds(partial(loss.value_and_gradient, w)), "s"
        seconds = least_seconds(partial(one.predict, packed, None, w))
        yield f"{what}: tagging, {pairs} pairs", data.rows.n / seconds / 1e6, "million tokens a second"
    loss, lam = accelerated.LogLoss(model, data), 2 / data.n
    result = accelerated.sgd(loss, lam=lam, epochs=10, rng=0)
    yield f"{what}: epoch of SGD", result.history[-1].seconds / 10, "s"
    yield f"{what}: loss after 10 epochs of SGD", result.fun * data.n, ""
    yield f"{what}: chunk F1 after 10 epochs of SGD", chunk_f1(model, result.x, held_out), "%"
    if iterations:
        result = accelerated.lbfgs(loss, lam=lam, iterations=iterations, tol=1e-7)
        yield f"{what}: {result.nit} iterations of L-BFGS", result.history[-1].seconds, "s"
        yield f"{what}: loss after them", result.fun * data.n, ""
        yield f"{what}: chunk F1 after them", chunk_f1(model, result.x, held_out), "%"


def casimir_pass(train: str) -> Iterator[Line]:
    """The seconds of a pass from the weights after an epoch of SGD: a full gradient, then a step for each sentence."""
    training = load_columns(train)[:2000]
    Y = [sentence["label"] for sentence in training]
    model = accelerated.TaggingModel.of(training, Y, "entities", bits=16, pairs="all")
    hinge = accelerated.StructuralHinge(model, model.pack(training, Y), smoothing=accelerated.smoothings.TopK(5))
    seconds = least_seconds(Pass((hinge, 2.0), 1 / hinge.n), 30)
    yield "entities: Casimir-SVRG pass, 2,000 sentences, 2^16 weights, top-5", seconds, "s"


def chunk_f1(model: Any, w: np.ndarray, sentences: list[Any]) -> float:
    """Chunk F1 in percent."""
    predicted = [[model.labels[i] for i in y] for y in model.predict(model.pack(sentences), None, w)]
    return 100 * chunk_scores([s["label"] for s in sentences], predicted).f1


def corpora(name: str, description: str | None) -> Parser:
    """A parser with the archives of the two shared tasks, --json and --out."""
    parser = Parser(name, description)
    parser.add_argument("chunks", help="path to conll2000.zip")
    parser.option("data", "--entities", metavar="PATH", help="path to conll2002.zip")
    add_print_options(parser, "all as one JSON list")
    return parser


def tasks(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """The name (also that of the templates), the training file and the test file of each given archive."""
    files = [("chunks", f"{options.chunks}:train.txt", f"{options.chunks}:test.txt")]
    if options.entities:
        files.append(("entities", f"{options.entities}:esp.train", f"{options.entities}:esp.testb"))
    for archive in (options.chunks, options.entities):  # check before anything is measured
        if archive is not None and not Path(archive).is_file():
            raise ValueError(f"{archive}: no such file")
    return files


def say(lines: Iterable[Line], as_json: bool, digits: int = 4) -> None:
    """Print each line at once, or with ``as_json`` all as one JSON list at the end."""
    records = []
    for what, value, unit in lines:
        records.append({"what": what, "number": value, "unit": unit})
        if not as_json:
            print(f"{what:50} {value:12.{digits}g} {unit}", flush=True)
    if as_json:
        print(json.dumps(records))


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit status."""
    parser = corpora(name, __doc__)
    parser.option("solver", "--iterations", type=count, default=0, help="number of L-BFGS iterations (default: none)")
    options = parser.parse_args(arguments)
    return ended(parser, options, lambda: _run(options), options.out)


def _run(options: argparse.Namespace) -> None:
    set_num_threads(1)
    runs = [figures(*task, task[0], options.iterations) for task in tasks(options)]
    runs += [casimir_pass(f"{options.entities}:esp.train")] if options.entities else []
    say(itertools.chain(*runs), options.json)
