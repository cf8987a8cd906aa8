"""A CRF of few labels: ``diptych reproduce partial-labels PATH_TO_conll2000.zip [--sentences N] [--plot curve.png]``.

Prints chunk F1 on the test data for shares of the labels of the first N sentences of CoNLL-2000: of tokens drawn at
random, with the labels of all others unknown, and of the first sentences, whole. lam = 2/n for n sentences; one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import accelerated
from diptych.experiments.clock import Line
from diptych.experiments.shell import Parser, add_print_options, ended, one_thread
from diptych.experiments.tagging import chunk_f1, say
from diptych.files.columns import load_columns
from diptych.pictures.plots import grid

SHARES = 0.02, 0.05, 0.1, 0.2, 0.5
KINDS = "tokens at random", "whole sentences"


def figures(path: str, sentences: int) -> Iterator[Line]:
    """Yield the share and the kind of labels, and chunk F1."""
    training, held_out = load_columns(f"{path}:train.txt")[:sentences], load_columns(f"{path}:test.txt")
    Y, rng = [sentence["label"] for sentence in training], np.random.default_rng(0)
    drawn, ends = [rng.random(len(y)) for y in Y], np.cumsum([*map(len, Y)])
    for share in SHARES:
        kept = ((p < share for p in each) for each in drawn)
        some: Any = [[a if k else None for a, k in zip(y, each, strict=True)] for y, each in zip(Y, kept, strict=True)]
        n = int(np.searchsorted(ends, share * ends[-1])) + 1
        for kind, X, labels in zip(KINDS, (training, training[:n]), (some, Y[:n]), strict=True):
            model = accelerated.TaggingModel.of(X, labels)
            result = accelerated.lbfgs(accelerated.LogLoss(model, model.pack(X, labels)), lam=2 / len(X), tol=1e-4)
            yield f"{share:.0%} of {ends[-1]} labels, {kind}", chunk_f1(model, result.x, held_out), "%"


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Train, test, print and draw; return the exit status."""
    parser = Parser(name, __doc__)
    parser.add_argument("path", metavar="DATA", help="path to the zip")
    parser.number("data", "--sentences", 1000, "train on the first N sentences")
    parser.option("output", "--plot", metavar="FILE", help="draw F1 against the share of labels")
    add_print_options(parser, "all as one JSON list")
    options = parser.parse_args(arguments)
    return ended(parser, options, lambda: _run(options), options.out)


def _run(options: argparse.Namespace) -> None:
    with one_thread():
        lines = [*figures(options.path, options.sentences)]
    say(lines, options.json)
    if options.plot:
        percent = [f"{100 * share:g}" for share in SHARES]
        points = [(x, line[1], None) for x, line in zip(np.repeat(percent, 2).tolist(), lines, strict=True)]
        curves = {kind: points[k::2] for k, kind in enumerate(KINDS)}
        grid(options.plot, curves, "labels that are known (%)", "chunk F1 (%)")
