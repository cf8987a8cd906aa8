"""Weights of -inf forbid what has a positive feature; scores that are +inf or nan are refused."""

from __future__ import annotations

import numpy as np
import pytest

EDGE = np.array([[0, 1]])
# a feature of two positions in the form that the model packs, and true outputs
MODELS = {
    "sequence": (lambda b: b.SequenceModel(1, 2), lambda x: [x], [[0, 1]]),
    "tree": (lambda b: b.TreeModel(1, 2), lambda x: [(x, [-1, 0])], [[0, 1]]),
    "classes": (lambda b: b.MulticlassModel(1, 2), lambda x: x, [0, 1]),
    "segmentation": (lambda b: b.SegmentationModel(1, 1), lambda x: [(x, EDGE, np.ones((1, 1)))], [[0, 1]]),
    "alignment": (lambda b: b.AlignmentModel(1), lambda x: [x.reshape(1, 2, 1)], [[0]]),
    "candidates": (
        lambda b: b.CandidateModel(1),
        lambda x: [(np.array([[0, 0, 1, 1], [0, 0, 2, 2]]), x.astype(np.float32))],
        [[0, 0, 1, 1]],
    ),
    "listed": (
        lambda b: b.ListModel(lambda x: x, b.Table, lambda x, y: 1.0 - np.eye(2)[y], size=1),
        lambda x: [x],
        [0],
    ),
}


def weighted(backend, name, feature, weight):
    """An objective and weights, the first of them ``weight``; the feature is 1 and ``feature``."""
    make, examples, Y = MODELS[name]
    model = make(backend)
    data = model.pack(examples(np.array([[1.0], [feature]])), Y)
    w = np.zeros(model.size)
    w[0] = weight
    return backend.StructuralHinge(model, data), w


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", MODELS)
def test_forbidding_weights_of_negative_features_are_refused(backend, name):
    objective, w = weighted(backend, name, -1.0, -np.inf)
    model, data = objective.model, objective.data
    for ask in (
        lambda: model.predict(data, None, w),
        lambda: [model.scores(data, piece, w) for piece in model.chunks(data, np.arange(data.n))],
        lambda: objective.value_and_gradient(w),
        lambda: backend.sgd(objective, w, lam=0.1, epochs=1, rng=0),
    ):
        with pytest.raises(ValueError, match="a weight of -inf forbids outputs with a positive feature"):
            ask()


@pytest.mark.parametrize("name", sorted({*MODELS} - {"alignment", "candidates"}))  # dense, and 0 times -inf is nan
def test_forbidding_weights_of_other_features_stay(backend, name):
    objective, w = weighted(backend, name, 0.0, -np.inf)
    (output, *_) = objective.model.predict(objective.data, None, w)
    first = np.ravel(output)[0]
    assert first == (0 if name == "segmentation" else 1)  # of both positions the first has the feature


OVERFLOWS = [(1e10, np.array([1e308, 0.0])), (-1e10, np.array([-1e308, 0.0]))]  # a feature, and weights in turn
OVERFLOWS += [(1e200, np.array([1e200])), (1e200, np.array([-1e200]))]  # all scores are inf, or -inf


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("feature", "weights"), OVERFLOWS)
@pytest.mark.parametrize("name", MODELS)
def test_scores_that_overflow_are_no_forbidden_outputs(backend, name, feature, weights):
    if name == "candidates" and feature == 1e200:
        feature = 1e38  # its features are float32
        weights = 1e80 * weights
    objective, w = weighted(backend, name, feature, weights[0])
    if len(weights) == 1:
        w[:] = weights if objective.model.nonnegative is None else np.abs(weights)
    model, x = objective.model, np.array([[1.0 if len(weights) > 1 else feature], [feature]])
    with pytest.raises(ValueError, match="weights times features overflow"):
        model.predict(model.pack(MODELS[name][1](x)), None, w)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scores_of_kernels_and_of_bound_taggers_that_overflow(backend):
    model = backend.KernelSequenceModel([backend.kernels.Linear()], 2)
    x = [np.full((2, 1), 1e100)]
    weights = model.zeros(model.pack(x, [[0, 1]]))
    weights = weights._replace(coefficients=tuple(A + 1e308 for A in weights.coefficients))
    with pytest.raises(ValueError, match="scores: expected finite"):
        model.predict(weights, x)
    tagger = backend.TaggingModel(["A", "B"], "words", bits=5)
    for w in (np.full(tagger.size, 1e308), np.full(tagger.size, -1e308)):
        with pytest.raises(ValueError, match="weights times features overflow"):
            tagger.bound(w)([{"word": ["a", "b"]}])
