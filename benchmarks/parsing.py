"""The parser on a treebank: ``python -m benchmarks.parsing PATH_TO_ZIP [--json]``, one core.

The zip's first 160 files train, the rest test. For 20 and 100 templates: memory of packed data, seconds of an epoch of stochastic subgradient steps,
of one of block-coordinate Frank-Wolfe and of one of multiple kernel learning over templates (2^16 weights for each, the first and the third from weights of zero), nanoseconds a feature of an arc, and the share of right heads (UAS) after ten epochs of SGD
beside that of the rule that takes the token before as head. Times are of the processor, so that what else runs counts little.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import accelerated
from diptych.files.treebank import load_treebank
from diptych.metrics import attachment_score
from reference.boxes import BCFW, SGD, OnlineProximal, counterpart

Line = tuple[str, float, str]
BITS = {"20": 20, "100": 22}
BLOCK_BITS = 16  # for each template, of multiple kernel learning
SETTINGS: dict[str, Any] = {"lam": 1e-6, "step_size": 0.01, "rng": 0}


def figures(path: str, epochs: int = 10) -> Iterator[Line]:
    """What was measured, the number, its unit."""
    train, test = load_treebank(f"{path}:1-160"), load_treebank(f"{path}:161-199")
    truth, tags = [s.heads for s in test], [s.tags for s in test]
    for name, heads in (
        ("the token before", lambda n: np.arange(n)),
        ("the token after, of the last one the root", lambda n: np.append(np.arange(2, n + 1), 0)),
    ):
        guess = [heads(len(y)) for y in truth]
        yield f"UAS, {name}", 100 * attachment_score(truth, guess), "%"
        yield f"UAS, {name}, without punctuation", 100 * attachment_score(truth, guess, tags), "%"
    for templates in ("20", "100"):
        model = accelerated.ParsingModel(templates, bits=BITS[templates], single_root=True)
        seconds, data = _timed(lambda m=model: m.pack([s.fields() for s in train], [s.heads for s in train]))
        yield f"packing, {templates} templates", seconds, "s"
        yield f"packed, {templates} templates", (data.head_keys.nbytes + data.modifier_keys.nbytes) / 1e6, "MB"
        hinge = accelerated.StructuralHinge(model, data)
        result = accelerated.sgd(hinge, epochs=1, **SETTINGS)  # compiles
        features = _number_of_features(model, data)
        w = result.x
        seconds = min(_timed(lambda m=model, d=data, w=w: _score_all(m, d, w))[0] for _ in range(3))
        yield f"scores of all arcs, {templates} templates", seconds, "s"
        yield f"scores of all arcs, {templates} templates", 1e9 * seconds / features, "ns an arc-feature"
        for loop in ("sgd", "bcfw"):
            seconds = min(_epoch(hinge, loop) for _ in range(2))
            yield f"epoch of {loop}, {templates} templates", seconds, "s"
            yield f"epoch of {loop}, {templates} templates", 1e9 * seconds / features, "ns an arc-feature"
        blocks = accelerated.ParsingModel(templates, bits=BLOCK_BITS, single_root=True, blocks=True)
        mkl = _updates(accelerated.StructuralHinge(blocks, data), "online_proximal")
        state = mkl()  # compiles, and begins
        again = _timed(lambda run=mkl: run())[0]
        onward = _timed(lambda run=mkl, s=state: run(s))[0]
        yield f"epoch of MKL, the first, {templates} templates", again, "s"
        yield f"epoch of MKL, the second, {templates} templates", onward, "s"
        w = accelerated.sgd(hinge, epochs=epochs, **SETTINGS).x
        guess = model.predict(model.pack([s.fields() for s in test]), None, w)
        yield f"UAS, {templates} templates", 100 * attachment_score(truth, guess), "%"
        yield f"UAS, {templates} templates, without punctuation", 100 * attachment_score(truth, guess, tags), "%"


def _epoch(hinge: Any, loop: str) -> float:
    """Processor seconds of an epoch's updates, without the objective after it."""
    return _timed(_updates(hinge, loop))[0]


def _updates(hinge: Any, loop: str) -> Callable[..., Any]:
    """One epoch of updates, as a call: from weights of zero, or from any state; online_proximal is over templates."""
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


def _score_all(model: Any, data: Any, w: np.ndarray) -> None:
    for i in range(data.n):
        model.scores(data, np.array([i]), w)


def _number_of_features(model: Any, data: Any) -> int:
    """Of all arcs of all sentences: the sum of their scores under weights of 1."""
    ones = np.ones(model.size)
    return int(sum(model.scores(data, np.array([i]), ones).values.sum() for i in range(data.n)))


class Epochs:
    """The forty sentences of the package, ten times: packing, an epoch of updates, parsing."""

    params = list(BITS)
    param_names = ("templates",)

    def setup(self, templates: str) -> None:
        self.sentences = 10 * load_treebank("sentences")
        self.model = accelerated.ParsingModel(templates, bits=BITS[templates], single_root=True)
        self.time_pack(templates)
        hinge = accelerated.StructuralHinge(self.model, self.data)
        self.sgd, self.bcfw = _updates(hinge, "sgd"), _updates(hinge, "bcfw")
        blocks = accelerated.ParsingModel(templates, bits=12, single_root=True, blocks=True)
        self.mkl = _updates(accelerated.StructuralHinge(blocks, self.data), "online_proximal")
        self.w = self.sgd().x
        self.time_mkl_epoch(templates)
        self.time_bcfw_epoch(templates)
        self.time_predict(templates)

    def time_pack(self, templates: str) -> None:
        self.data = self.model.pack([s.fields() for s in self.sentences], [s.heads for s in self.sentences])

    def time_sgd_epoch(self, templates: str) -> None:
        self.sgd()

    def time_mkl_epoch(self, templates: str) -> None:
        self.mkl()

    def time_bcfw_epoch(self, templates: str) -> None:
        self.bcfw()

    def time_predict(self, templates: str) -> None:
        self.model.predict(self.data, None, self.w)


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    answer = run()
    return time.process_time() - started, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", help="the treebank, a zip of 199 files")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    arguments = parser.parse_args()
    for what, value, unit in figures(arguments.path):
        text = json.dumps({"what": what, "value": value, "unit": unit})
        print(text if arguments.json else f"{what:60} {value:10.3f} {unit}", flush=True)


if __name__ == "__main__":
    main()
