"""Multiple kernel learning on one fold of the OCR letters: Gram matrices, rounds, prediction; all words in the fast
panel, 40 in the reference. One core.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator

import numpy as np

from accelerated.threads import set_num_threads
from benchmarks import problems
from diptych.experiments.clock import best_of
from diptych.experiments.sparse_data import handwritten_words
from reference.kernels import B1Spline, Explicit, Gaussian, Polynomial

WORDS = {"reference": 40, "accelerated": 10_000}
EPOCHS = {"reference": 1, "accelerated": 20}
KINDS = ["linear, quadratic, Gaussian", "linear, B1-spline"]


class Fold:
    """The groups of Table 1 of Martins et al. (2010), float32 Gram matrices."""

    params = (problems.PANELS, KINDS)
    param_names = ("panel", "kernels")
    timeout = 600

    def setup(self, panel, kind):
        set_num_threads(1)
        self.panel = importlib.import_module(panel)
        training, self.rest = handwritten_words().split(0, reverse=True)
        self.training = training.take(np.arange(min(WORDS[panel], len(training.X))))
        self.test = self.rest.take(np.arange(min(WORDS[panel], len(self.rest.X)) // 10))
        spline = B1Spline.with_zeros(np.concatenate(self.training.X), 0.95)
        groups = [Explicit(True), *([Polynomial(2), Gaussian(5.0)] if kind == KINDS[0] else [spline])]
        self.model = self.panel.KernelSequenceModel(groups, training.labels)
        self.data, self.epochs = self._pack(), EPOCHS[panel]
        self.weights = self._run().x
        self.model.predict(self.weights, self.test.X[:2])

    def _pack(self):
        return self.model.pack(self.training.X, self.training.Y, like=np.zeros(0, np.float32))

    def _run(self):
        lam, steps = 1 / (10 * self.data.n), self.panel.steps.InverseSqrt(1.0)
        every = {"epochs": self.epochs, "evaluate_every": self.epochs}
        return self.panel.mkl(self.model, self.data, lam=lam, step_size=steps, rng=0, **every)

    def time_gram_matrices(self, panel, kind):
        self._pack()

    def track_rounds(self, panel, kind):
        """Seconds of the rounds alone, as measured by the history; the best of three."""
        return min(self._run().history[-1].seconds for _ in range(3))

    track_rounds.unit = "seconds"

    def time_objective(self, panel, kind):
        self.model.mean_loss(self.data, self.weights, "hinge")

    def time_prediction(self, panel, kind):
        """Prediction of a tenth of the test words."""
        self.model.predict(self.weights, self.test.X)

    def peakmem_rounds(self, panel, kind):
        self._run()


def figures() -> Iterator[tuple[str, float, str, float | None]]:
    """Seconds of the two kinds of MKL of Table 1 on one fold, 20 epochs: name, seconds, unit, target."""
    suite = Fold()
    for kind, most in zip(KINDS, (3.0, 1.5), strict=True):
        suite.setup("accelerated", kind)
        gram, rounds = best_of(suite._pack, 3), suite.track_rounds("accelerated", kind)
        yield f"MKL, {kind}, one fold, 20 epochs, with Gram matrices", gram + rounds, "s", most
        yield f"MKL, {kind}, the Gram matrices alone", gram, "s", None
        set_num_threads(2)
        started = time.perf_counter()
        suite.model.predict(suite.weights, suite.rest.X)
        yield f"MKL, {kind}, labels of the other nine folds, two threads", time.perf_counter() - started, "s", 15.0
        set_num_threads(1)
