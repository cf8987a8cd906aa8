"""Segmentation of handwritten words as noisy pictures: oracles, restoring, training to a gap of 2 %."""

from __future__ import annotations

import importlib

import numpy as np

from benchmarks import problems
from diptych.pictures.grids import features, noisy_copy, word_pictures

WORDS = {"reference": 2, "accelerated": 10}
WEIGHTS = np.array([0.0, 1.3, 0.3, 0.6, 0.0])  # about what training finds


class Words:
    """10 words (2 in the reference), some 3,000 pixels each."""

    params = problems.PANELS
    param_names = ("panel",)
    timeout = 300

    def setup(self, panel):
        module, rng = importlib.import_module(panel), np.random.default_rng(0)
        clean = word_pictures(np.arange(WORDS[panel]) * 600, 2)
        self.model = module.SegmentationModel(3, 2)
        X = [features(noisy_copy(picture, 0.15, rng), 4) for picture in clean]
        self.data = self.model.pack(X, [picture.ravel() for picture in clean])
        self.hinge = module.StructuralHinge(self.model, self.data)
        self.bcfw = module.bcfw
        self.hinge.value_and_gradient(WEIGHTS)

    def time_full_gradient(self, panel):
        self.hinge.value_and_gradient(WEIGHTS)

    def time_predict(self, panel):
        self.model.predict(self.data, None, WEIGHTS)

    def track_training(self, panel):
        """Seconds of training until the gap is 2 % of the objective, without evaluations."""
        return self.bcfw(self.hinge, lam=10.0, tol=0.02, rng=0).history[-1].seconds

    track_training.unit = "seconds"
