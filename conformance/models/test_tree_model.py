"""Labelled trees: a path is a sequence."""

from __future__ import annotations

import numpy as np

import reference
from conformance.tolerances import close


def make_trees(n, rng, F=4, L=3, largest=8):
    """n labelled forests of Gaussian features: the best labellings under planted weights, which are returned too."""
    model, X = reference.TreeModel(F, L), []
    for _ in range(n):
        p = int(rng.integers(1, largest + 1))
        parents = np.array([-1 if v == 0 or rng.random() < 0.1 else rng.integers(v) for v in range(p)])
        X.append((rng.normal(size=(p, F)), parents))
    w = 2.0 * rng.normal(size=model.size)
    return X, model.predict(model.pack(X), None, w), w


def test_a_path_is_a_sequence(backend, rng):
    """The same losses and gradients as the sequence model; its stop weights are 0."""
    X, Y = [rng.normal(size=(n, 3)) for n in (4, 1, 6)], [rng.integers(0, 3, n) for n in (4, 1, 6)]
    sequences, trees = backend.SequenceModel(3, 3), backend.TreeModel(3, 3)
    packed = trees.pack([(x, np.arange(len(x)) - 1) for x in X], Y)
    w = rng.normal(size=trees.size)
    longer = np.concatenate([w[:12], np.zeros(3), w[12:]])
    for smoothing, mu in (
        (backend.smoothings.Max(), 0.0),
        (backend.smoothings.Entropy(), 0.5),
        (backend.smoothings.TopK(3), 0.5),
        (backend.smoothings.SquaredL2(32), 0.5),
    ):
        ours = backend.StructuralHinge(trees, packed, smoothing=smoothing).linearize(w, mu=mu)
        theirs = backend.StructuralHinge(sequences, sequences.pack(X, Y), smoothing=smoothing).linearize(longer, mu=mu)
        close(ours.value, theirs.value)
        close(ours.gradient, np.delete(theirs.gradient, slice(12, 15)))
        close((ours.task_loss, ours.exact), (theirs.task_loss, theirs.exact))
