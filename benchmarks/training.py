"""Full gradients, epochs and tagging on the OCR letters: all words in the fast panel, 200 in the reference."""

from __future__ import annotations

import importlib

import numpy as np

from accelerated.threads import set_num_threads
from benchmarks import problems

WORDS = {"reference": 200, "accelerated": None}
LOSSES = ["LogLoss", "StructuralHinge"]


class Letters:
    """One core."""

    params = (problems.PANELS, LOSSES)
    param_names = ("panel", "loss")
    timeout = 300

    def setup(self, panel, loss):
        set_num_threads(1)
        self.objective = problems.objective(panel, loss, WORDS[panel])
        self.w = problems.weights(200)
        self.epoch = lambda: importlib.import_module(panel).sgd(self.objective, self.w, lam=0.001, epochs=1, rng=0)
        self.epoch()

    def time_full_gradient(self, panel, loss):
        self.objective.value_and_gradient(self.w)

    def track_sgd_epoch(self, panel, loss):
        """Seconds of the updates alone, as measured by the history; the best of three."""
        return min(self.epoch().history[-1].seconds for _ in range(3))

    track_sgd_epoch.unit = "seconds"

    def peakmem_sgd_epoch(self, panel, loss):
        self.epoch()


class Tagging:
    """Labels for packed words with a trained model, one core."""

    params = problems.PANELS
    param_names = ("panel",)

    def setup(self, panel):
        set_num_threads(1)
        self.objective = problems.objective(panel, "LogLoss", WORDS[panel])
        self.w = problems.weights(200)
        self.time_tagging(panel)

    def time_tagging(self, panel):
        self.objective.model.predict(self.objective.data, None, self.w)


class Threads:
    """The fast panel's full gradient on one and on two threads; its result must not depend on their number."""

    params = [1, 2]
    param_names = ("threads",)

    def setup(self, threads):
        set_num_threads(threads)
        self.objective = problems.objective("accelerated", "LogLoss")
        self.w = problems.weights(200)
        self.time_full_gradient(threads)

    def teardown(self, threads):
        set_num_threads(None)

    def time_full_gradient(self, threads):
        self.objective.value_and_gradient(self.w)

    def track_gradient_difference(self, threads):
        """0 if the gradient has the same bits on any number of threads."""
        g = self.objective.value_and_gradient(self.w)[1]
        set_num_threads(1)
        return float(np.max(np.abs(g - self.objective.value_and_gradient(self.w)[1])))


class OracleCalls:
    """Oracle calls of SGD until the CRF objective is within 5 % of its value after L-BFGS: a count, not seconds."""

    def track_calls_to_five_percent(self):
        import accelerated

        objective = problems.objective("accelerated", "LogLoss", 1000)
        target = 1.05 * accelerated.lbfgs(objective, lam=0.01, iterations=200).fun
        result = accelerated.sgd(
            objective, lam=0.01, epochs=100, rng=0, callback=lambda row, w: row.objective <= target
        )
        return result.oracle_calls

    track_calls_to_five_percent.unit = "oracle calls"
    timeout = 300
