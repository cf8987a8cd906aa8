"""Losses over ``best`` alone: SparseMAP with its calls of ``best`` and its Jacobian, perturbed maxima, SPO+."""

from __future__ import annotations

import numpy as np

import accelerated as sp

SPACES = {
    "matching 20": lambda rng: sp.Matching(rng.normal(size=(20, 20))),
    "matching 50": lambda rng: sp.Matching(rng.normal(size=(50, 50))),
    "tree 30": lambda rng: sp.Arborescence(rng.normal(size=(30, 31))),
    "chain 20": lambda rng: sp.Chain(rng.normal(size=(20, 5)), rng.normal(size=(19, 5, 5))),
}


class Losses:
    """Seconds of one value with its gradient; calls of ``best`` of SparseMAP."""

    params = list(SPACES)
    param_names = ("space",)

    def setup(self, name):
        rng = np.random.default_rng(0)
        self.space, self.true = SPACES[name](rng), SPACES[name](rng)
        self.answer = sp.sparsemap(self.space)

    def time_sparsemap(self, name):
        sp.sparsemap(self.space)

    def time_jacobian(self, name):
        sp.sparsemap_product(self.space, self.answer.marginals, self.true.scores)

    def time_perturbed(self, name):
        sp.perturbed(self.space, samples=10, rng=0)

    def time_spo_plus(self, name):
        sp.spo_plus(self.space, self.true)

    def track_calls(self, name):
        return self.answer.calls
