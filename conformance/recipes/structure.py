"""Recipe: add a structure. Here: any subset of p labels, as in multi-label classification."""

import itertools

import numpy as np

from reference import ListModel, LogLoss, StructuralHinge, Structure, sgd


class Subset(Structure):
    """scores (p,): the score of a subset is the sum over its members; an output is a tuple of 0 and 1."""

    def best(self):
        y = tuple((self.scores > 0).astype(int))
        return float(np.sum(np.maximum(self.scores, 0.0))), y

    def parts(self, y):
        return np.array(y, dtype=np.float64)

    # best and parts train a structural SVM; expectation adds the log loss, enumerate lets the suite check everything

    def expectation(self, mu=1.0):
        z = self.scores / mu
        return mu * float(np.sum(np.logaddexp(0.0, z))), 1.0 / (1.0 + np.exp(-z))

    def enumerate(self):
        return itertools.product((0, 1), repeat=len(self.scores))


def train(X, Y, loss=StructuralHinge):
    """Weights (p * F) of a linear multi-label classifier; X (n, F), Y (n, p) of 0 and 1."""
    p, F = np.shape(Y)[1], np.shape(X)[1]
    model = ListModel(
        part_features=lambda x: np.kron(np.eye(p), x),  # part = label; its features are x in the label's block
        structure_type=Subset,
        task_loss=lambda x, y: 1.0 - 2.0 * np.array(y),  # Hamming, up to the constant sum(y)
        size=p * F,  # scores that are no plain vector: shape=lambda x, v: v.reshape(...) brings the parts to their form
    )
    objective = loss(model, model.pack(list(X), [tuple(y) for y in Y]))
    return model, sgd(objective, lam=0.01, step_size=0.1, epochs=20, rng=0).x


__all__ = ["LogLoss", "Subset", "train"]
