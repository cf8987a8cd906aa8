"""hmmlearn: chains as hidden Markov models."""

from __future__ import annotations

import numpy as np

from conformance.adapters import NotOffered
from reference import ChainScores

PACKAGE, MODULE = "hmmlearn", "hmmlearn"
MAPPING = {
    "Chain": "a subclass of `BaseHMM` whose emission log-likelihoods are given, as its documentation has emissions of "
    "one's own. exp(pairwise) is divided by its rows' sums, which are probabilities then; the logarithms of the sums "
    "go to the emissions of all positions but the last. The start is uniform. `decode`, `score`, `predict_proba`. Of a "
    "batch, values are one sum and not compared. Transitions too far apart for float64 probabilities are passed over."
}
KNOWN: dict[str, str] = {}


class Chain:
    def __init__(self, unary, pairwise, lengths=None):
        from hmmlearn.base import BaseHMM

        top = pairwise.max(axis=1, keepdims=True)
        top[top == -np.inf] = 0.0
        weights = np.exp(pairwise - top)
        sums = weights.sum(axis=1, keepdims=True)
        if np.any((weights == 0) & (pairwise > -np.inf)):
            raise NotOffered("transitions are probabilities; scores so far apart have none in float64")
        batch = [unary] if lengths is None else [each[:n] for each, n in zip(unary, lengths, strict=True)]
        self.lengths, self.L = [len(each) for each in batch], unary.shape[-1]
        emissions = np.concatenate(batch)
        before_another = np.ones(len(emissions), bool)
        before_another[np.cumsum(self.lengths) - 1] = False
        emissions[before_another] += (top + np.log(sums)).T

        class Model(BaseHMM):
            def _compute_log_likelihood(self, X):
                return emissions[X[:, 0]]

            def _check(self):
                self._check_sum_1("startprob_")
                self._check_sum_1("transmat_")

        self.model, self.X = Model(self.L), np.arange(len(emissions))[:, None]
        self.model.startprob_ = np.full(self.L, 1 / self.L)
        self.model.transmat_ = np.where(sums > 0, weights, 1.0) / np.where(sums > 0, sums, self.L)
        self.batched = lengths is not None

    def split(self, rows):
        return np.split(rows, np.cumsum(self.lengths)[:-1]) if self.batched else rows

    def best(self):
        value, labels = self.model.decode(self.X, self.lengths)
        return None if self.batched else value + np.log(self.L), self.split(labels)

    def log_partition(self):
        if self.batched:
            raise NotOffered("of a batch it is one sum")
        return self.model.score(self.X, self.lengths) + np.log(self.L)

    def marginals(self):
        return ChainScores(self.split(self.model.predict_proba(self.X, self.lengths)), None, None)
