"""The parser on a treebank: ``diptych reproduce parsing PATH_TO_ZIP``, one core.

The zip's first 160 files are for training, the rest for testing. Prints for 20 and 100 templates:

- the memory of packed data;
- the seconds of an epoch of stochastic subgradient steps, of block-coordinate Frank-Wolfe, and of multiple kernel
  learning over templates (2^16 weights for each template), each from weights of zero; and of a second epoch of multiple
  kernel learning;
- the nanoseconds for each feature of an arc;
- the share of right heads (UAS) after ten epochs of SGD, and that of the rule that the head is the token before.

Times are processor seconds, which other processes hardly change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import accelerated
from diptych.experiments.clock import Line, timed
from diptych.experiments.shell import Parser, add_print_options, ended
from diptych.files.treebank import load_treebank
from diptych.metrics import attachment_score
from reference.algorithms import BCFW, SGD, OnlineProximal, counterpart

BITS = {"20": 20, "100": 22}
BLOCK_BITS = 16  # 2^16 weights for each template in multiple kernel learning
SETTINGS: dict[str, Any] = {"lam": 1e-6, "step_size": 0.01, "rng": 0}


def figures(path: str, epochs: int = 10) -> Iterator[Line]:
    """Yield the name, the number and the unit of each measurement."""
    train, test = load_treebank(f"{path}:1-160"), load_treebank(f"{path}:161-199")
    truth, tags = [np.asarray(s.heads) for s in test], [s.tags for s in test]
    for name, heads in (
        ("the token before", lambda n: np.arange(n)),
        ("the token after, of the last one the root", lambda n: np.append(np.arange(2, n + 1), 0)),
    ):
        predicted = [heads(len(y)) for y in truth]
        yield f"UAS, {name}", 100 * attachment_score(truth, predicted), "%"
        yield f"UAS, {name}, without punctuation", 100 * attachment_score(truth, predicted, tags), "%"
    for templates in ("20", "100"):
        model = accelerated.ParsingModel(templates, bits=BITS[templates], single_root=True)
        seconds, data = timed(partial(model.pack, [s.fields() for s in train], [s.heads for s in train]))
        yield f"packing, {templates} templates", seconds, "s"
        yield f"packed, {templates} templates", (data.head_keys.nbytes + data.modifier_keys.nbytes) / 1e6, "MB"
        hinge = accelerated.StructuralHinge(model, data)
        result = accelerated.sgd(hinge, epochs=1, **SETTINGS)  # compiles
        features = int(_scores_of_all(model, data, np.ones(model.size)))
        w = result.x
        seconds = min(timed(partial(_scores_of_all, model, data, w))[0] for _ in range(3))
        yield f"scores of all arcs, {templates} templates", seconds, "s"
        yield f"scores of all arcs, {templates} templates", 1e9 * seconds / features, "ns an arc-feature"
        for loop in ("sgd", "bcfw"):
            seconds = min(timed(updates(hinge, loop))[0] for _ in range(2))
            yield f"epoch of {loop}, {templates} templates", seconds, "s"
            yield f"epoch of {loop}, {templates} templates", 1e9 * seconds / features, "ns an arc-feature"
        blocks = accelerated.ParsingModel(templates, bits=BLOCK_BITS, single_root=True, blocks=True)
        mkl = updates(accelerated.StructuralHinge(blocks, data), "online_proximal")
        state = mkl()  # compiles; the state after one epoch
        first = timed(mkl)[0]
        second = timed(partial(mkl, state))[0]
        yield f"epoch of MKL, the first, {templates} templates", first, "s"
        yield f"epoch of MKL, the second, {templates} templates", second, "s"
        w = accelerated.sgd(hinge, epochs=epochs, **SETTINGS).x
        predicted = model.predict(model.pack([s.fields() for s in test]), None, w)
        yield f"UAS, {templates} templates", 100 * attachment_score(truth, predicted), "%"
        yield f"UAS, {templates} templates, without punctuation", 100 * attachment_score(truth, predicted, tags), "%"


def updates(hinge: Any, loop: str) -> Callable[..., Any]:
    """A function that performs one epoch of updates, from weights of zero or from a given state.

    loop: "sgd", "bcfw", or "online_proximal" with the templates as groups.
    """
    box: Any
    if loop == "sgd":
        box = SGD(SETTINGS["lam"], accelerated.steps.Constant(SETTINGS["step_size"]))
    elif loop == "bcfw":
        box = BCFW(1e-4, cached_passes=0)
    else:
        phi = accelerated.SquaredL21(1 / (10 * hinge.n), hinge.model.groups)
        box = OnlineProximal(phi, accelerated.steps.InverseSqrt(0.1))
    box, order = counterpart(box, hinge), np.random.default_rng(1).permutation(hinge.n)
    start, visits = box.init(hinge, hinge.zeros()), [order] if loop == "bcfw" else order
    return lambda state=start: box.sweep(hinge, state, visits)


def _scores_of_all(model: Any, data: Any, w: np.ndarray) -> float:
    """The sum of the scores of all arcs of all sentences. Under weights of 1 it is the number of features."""
    return float(sum(model.scores(data, np.array([i]), w).values.sum() for i in range(data.n)))


def main(name: str, arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return the exit status."""
    parser = Parser(name, __doc__)
    parser.add_argument("path", metavar="DATA", help="the treebank, a zip of 199 files")
    add_print_options(parser, "one JSON object per line")
    options = parser.parse_args(arguments)
    return ended(parser, options, lambda: _run(options.path, options.json), options.out)


def _run(path: str, as_json: bool) -> None:
    for what, value, unit in figures(path):
        text = json.dumps({"what": what, "value": value, "unit": unit})
        print(text if as_json else f"{what:60} {value:10.3f} {unit}", flush=True)
