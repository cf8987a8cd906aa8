"""Recipe: add a structure. Here: any subset of p labels, as in multi-label classification."""

import itertools

import numpy as np

from reference import ListModel, LogLoss, StructuralHinge, Structure, sgd


class Subset(Structure):
    """scores (p + 1,): the score of a subset is the sum over its members and the last number, a part that all have; an
    output is a tuple of p times 0 or 1.
    """

    def best(self):
        members = self.scores[:-1]
        return float(np.sum(np.maximum(members, 0.0)) + self.scores[-1]), tuple((members > 0).astype(int))

    def parts(self, y):
        return np.array([*y, 1.0])

    # best and parts train a structural SVM; expectation adds the log loss, enumerate lets the suite check everything

    def expectation(self, mu=1.0):
        z = self.scores[:-1] / mu
        value = mu * np.sum(np.logaddexp(0.0, z)) + self.scores[-1]
        return float(value), np.append(1.0 / (1.0 + np.exp(-z)), 1.0)

    def enumerate(self):
        return itertools.product((0, 1), repeat=len(self.scores) - 1)


def train(X, Y, loss=StructuralHinge):
    """Weights (p * F) of a linear multi-label classifier; X (n, F), Y (n, p) of 0 and 1."""
    p, F = np.shape(Y)[1], np.shape(X)[1]
    model = ListModel(
        part_features=lambda x: np.kron(np.eye(p + 1, p), x),  # of a label x in its block, of the last part none
        structure_type=Subset,
        task_loss=lambda x, y: np.append(1.0 - 2.0 * np.array(y), sum(y)),  # Hamming: 0 for y itself, as a hinge needs
        size=p * F,  # scores that are no plain vector: shape=lambda x, v: v.reshape(...) brings the parts to their form
    )
    objective = loss(model, model.pack(list(X), [tuple(y) for y in Y]))
    return model, sgd(objective, lam=0.01, step_size=0.1, epochs=20, rng=0).x


__all__ = ["LogLoss", "Subset", "train"]
