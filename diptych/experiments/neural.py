"""Layers over a bidirectional LSTM, beside linear models trained on the same sentences.

- ``diptych reproduce neural-chunks PATH_TO_conll2000.zip``: chunks by ``ChainCRF``, beside a linear CRF of the default
  templates (10 epochs of SGD); chunk F1 on the test data.
- ``diptych reproduce neural-trees PATH_TO_dependency_treebank.zip``: heads by ``DependencyCRF``, beside the linear
  structural SVM of 20 templates (10 epochs of SGD). The zip's first 160 files are for training, the rest for testing;
  share of right heads (UAS), punctuation included.

Both take the first sentences of the training data, and words and tags as they are in the files. The networks are in
``diptych/experiments/lstm.py``: embeddings of words, of their last three letters and of tags, one layer of 64 units in
each direction, Adam. Needs PyTorch. Times are processor seconds, which other processes hardly change.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import accelerated
from diptych.chunks import chunk_scores
from diptych.experiments.clock import Line, timed
from diptych.experiments.shell import Parser, add_print_options, ended, one_thread
from diptych.experiments.tagging import chunk_f1
from diptych.experiments.tagging import say as print_lines
from diptych.files.columns import load_columns
from diptych.files.treebank import load_treebank
from diptych.metrics import attachment_score

SENTENCES = {"neural-chunks": 4000, "neural-trees": 1500}
EPOCHS = {"neural-chunks": 6, "neural-trees": 10}


def chunks(path: str, sentences: int, epochs: int) -> Iterator[Line]:
    """Seconds and chunk F1 of both taggers, and the gap."""
    train, test = load_columns(f"{path}:train.txt")[:sentences], load_columns(f"{path}:test.txt")
    lstm = importlib.import_module("diptych.experiments.lstm")  # PyTorch
    examples, held_out = ([lstm.Example(s["word"], s["tag"], s["label"]) for s in part] for part in (train, test))
    seconds, network = timed(lambda: lstm.trained(lstm.Chunker, examples, epochs))
    yield "BiLSTM and ChainCRF: training", seconds, "s"
    found = chunk_scores([e.truth for e in held_out], lstm.predictions(network, held_out))
    yield "BiLSTM and ChainCRF: chunk F1", 100 * found.f1, "%"

    Y = [s["label"] for s in train]
    model = accelerated.TaggingModel.of(train, Y, "chunks")
    loss = accelerated.LogLoss(model, model.pack(train, Y))
    seconds, result = timed(lambda: accelerated.sgd(loss, lam=2 / loss.n, epochs=10, rng=0))
    yield "linear CRF: training", seconds, "s"
    linear = chunk_f1(model, result.x, test)
    yield "linear CRF: chunk F1", linear, "%"
    yield "the gap", 100 * found.f1 - linear, "points"


def trees(path: str, sentences: int, epochs: int) -> Iterator[Line]:
    """Seconds and UAS of both parsers, and the gap."""
    train, test = load_treebank(f"{path}:1-160")[:sentences], load_treebank(f"{path}:161-199")
    lstm = importlib.import_module("diptych.experiments.lstm")  # PyTorch
    examples, held_out = ([lstm.Example(s.words, s.tags, s.heads) for s in part] for part in (train, test))
    truth = [np.asarray(s.heads) for s in test]
    seconds, network = timed(lambda: lstm.trained(lstm.HeadFinder, examples, epochs))
    yield "BiLSTM and DependencyCRF: training", seconds, "s"
    share = 100 * attachment_score(truth, [np.array(y) for y in lstm.predictions(network, held_out)])
    yield "BiLSTM and DependencyCRF: UAS", share, "%"

    model = accelerated.ParsingModel("20", bits=20, single_root=True)
    hinge = accelerated.StructuralHinge(model, model.pack([s.fields() for s in train], [s.heads for s in train]))
    seconds, result = timed(lambda: accelerated.sgd(hinge, lam=1e-5, step_size=0.01, epochs=10, rng=0))
    yield "linear SVM: training", seconds, "s"
    linear = 100 * attachment_score(truth, model.predict(model.pack([s.fields() for s in test]), None, result.x))
    yield "linear SVM: UAS", linear, "%"
    yield "the gap", share - linear, "points"


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Train, test and print; return the exit status."""
    parser = Parser(name, __doc__)
    parser.add_argument("path", metavar="DATA", help="path to the zip")
    parser.number("data", "--sentences", SENTENCES[name], "train on the first N sentences")
    parser.number("solver", "--epochs", EPOCHS[name], "epochs of Adam")
    add_print_options(parser, "all as one JSON list")
    options = parser.parse_args(arguments)
    return ended(parser, options, lambda: _run(name, options), options.out)


def _run(name: str, options: argparse.Namespace) -> None:
    if not Path(options.path).is_file():
        raise ValueError(f"{options.path}: no such file")
    figures = chunks if name == "neural-chunks" else trees
    with one_thread():
        print_lines(figures(options.path, options.sentences, options.epochs), options.json)
