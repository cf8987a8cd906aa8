"""Models whose best outputs an oracle of one's own finds: it is heard everywhere, by both panels, and checked."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pytest

import reference
from accelerated.structures import arborescence, cut, matching
from conformance.specimens.models import MODELS
from conformance.tolerances import close
from diptych.files import load_model, save_model
from reference.optimizers.bcfw import BCFW
from reference.optimizers.online_proximal import OnlineProximal
from reference.optimizers.sgd import SGD
from reference.training.counterparts import counterpart


class Listening:
    """An oracle that counts what it was asked; without another's ``answer`` it lists all outputs."""

    def __init__(self, kind, answer=None, **state):
        self.kind, self.answer, self.state, self.calls = kind, answer, state, 0

    def __call__(self, scores):
        self.calls += 1
        if self.answer is not None:
            return self.answer(scores)
        space = self.kind.unchecked(scores)
        space.__dict__.update(self.state)
        scored = [(float(space.score(np.array(y, np.int64))), y) for y in space.enumerate()]
        return max(scored) if scored else (-np.inf, None)


def made(panel, name, oracle, n=3):
    """Examples of the catalogue, by a model that asks the oracle."""
    plain, data = MODELS[name].training(n, 3, 1).packed(panel)
    return type(plain)(**plain.settings(), oracle=oracle), data


SPACES = {"images": "Cut", "alignments with null": "Matching", "arcs": "Arborescence", "arcs, one root": "Arborescence"}
SPACES |= {"trees": "Tree", "windows of words": "Boxes"}
OTHERS = {
    "images": [cut.by_networkx],
    "alignments with null": [matching.by_networkx, matching.by_scipy],
    "arcs": [arborescence.by_networkx],
    "arcs, one root": [partial(arborescence.by_networkx, single_root=True)],
}
models = pytest.mark.parametrize("name", SPACES)
ORACLES = [(name, answer) for name in SPACES for answer in (None, *OTHERS.get(name, ()))]


def of(backend, name, answer=None):
    """Model, data, oracle, and the model without it."""
    state = {"single_root": True} if name == "arcs, one root" else {}
    oracle = Listening(getattr(backend, SPACES[name]), answer, **state)
    model, data = made(backend, name, oracle)
    return model, data, oracle, made(backend, name, None)[0]


@pytest.mark.parametrize(("name", "answer"), ORACLES)
def test_an_oracle_is_asked_once_for_each_best_output(backend, name, answer):
    """By every reader of the hinge and in prediction: no kernel answers in its place, and other libraries do."""
    model, data, oracle, plain = of(backend, name, answer)
    hinge, own = backend.StructuralHinge(model, data), backend.StructuralHinge(plain, data)
    w = 0.1 * np.abs(np.random.default_rng(1).normal(size=model.size))  # no ties, as there are at 0
    for ask in (
        lambda hinge: hinge.value_and_gradient(w),
        lambda hinge: hinge.linearize(w),
        lambda hinge: hinge.corners(w),
        lambda hinge: hinge.model.predict(data, None, w),
    ):
        before = oracle.calls
        found, expected = ask(hinge), ask(own)
        assert oracle.calls == before + data.n
        for a, b in zip(found, expected, strict=True):
            close(a, b)


@models
@pytest.mark.parametrize("optimizer", ["sgd", "bcfw", "online_proximal", "cutting_planes"])
def test_every_optimiser_hears_an_oracle(backend, name, optimizer):
    model, data, oracle, _ = of(backend, name)
    hinge = backend.StructuralHinge(model, data)
    steps = reference.steps.Constant(0.1)
    for box in (SGD(0.1, steps), BCFW(0.1), OnlineProximal(reference.HalfSquaredL2(0.1), steps)):
        assert counterpart(box, hinge) is box
    options = {"lam": 0.1}
    if optimizer == "online_proximal":
        options = {"regularizer": backend.HalfSquaredL2(0.1), "step_size": 0.1}
    run = partial(getattr(backend, optimizer), hinge, epochs=2, **options)
    if model.nonnegative is not None and optimizer not in ("sgd", "bcfw"):
        with pytest.raises(ValueError, match="weights .* must be >= 0"):
            run()
        return
    result = run()
    assert oracle.calls >= result.oracle_calls >= 2 * data.n


@models
def test_the_structure_answers_all_other_questions(backend, name):
    model, data, oracle, plain = of(backend, name)
    w = np.abs(np.random.default_rng(1).normal(size=model.size))
    scores = model.scores(data, np.array([0]), w)
    space, own = model.structure_type.unchecked(scores), plain.structure_type.unchecked(scores)
    found, expected = space.topk(3), own.topk(3)
    close(found.scores, expected.scores)
    assert np.array_equal(found.labels, expected.labels)
    assert model.counts(data) == plain.counts(data) and oracle.calls == 0
    loud = space.augment(model.task_loss(data, np.array([0])))
    close(loud.best()[0], own.augment(model.task_loss(data, np.array([0]))).best()[0])
    assert oracle.calls == 1 and isinstance(space, type(own))
    asked = [backend.StructuralHinge(m, data, smoothing=backend.smoothings.TopK(2)) for m in (model, plain)]
    close(*(hinge.value_and_gradient(w, mu=0.5)[0] for hinge in asked))
    if MODELS[name].sums:
        close(*(backend.LogLoss(m, data).value_and_gradient(w)[1] for m in (model, plain)))
    assert oracle.calls == 1


def test_answers_are_taken_to_where_the_scores_are(backend, space):
    """Lists, plain numbers, arrays of other dtypes: in the namespace and dtype of the weights."""
    model = backend.AlignmentModel(2, oracle=lambda scores: (3, [1, 0]))
    data = model.pack([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [0.0, 0.0]]]], [[1, 0]], like=space.put(0.0))
    w = space.put([0.0, 1.0])
    value, columns = model.structure_type.unchecked(model.scores(data, np.array([0]), w)).best()
    assert float(space.get(value)) == 3.0 and space.get(value).dtype == space.dtype
    assert space.get(columns).dtype == np.int64 and space.get(columns).tolist() == [1, 0]
    assert model.predict(data, None, w)[0].tolist() == [1, 0]


def test_trees_of_several_roots_are_no_answer_where_there_is_one(backend):
    model, data = made(backend, "arcs, one root", arborescence.by_networkx, 9)
    with pytest.raises(ValueError, match="oracle: y: expected a single token of head 0"):
        backend.bcfw(backend.StructuralHinge(model, data), lam=0.1, epochs=3, rng=0)


def test_weights_that_are_no_numbers_are_no_fault_of_the_oracle(backend):
    """The structure itself answers nan; a run then says that it diverged."""
    for name, kind in (("alignments with null", "MatchingScores"), ("arcs", "ArborescenceScores")):
        model, _ = made(backend, name, OTHERS[name][-1])
        value, y = model.structure_type.unchecked(getattr(backend, kind)(np.full((2, 3), np.nan))).best()
        assert np.isnan(value) and y.tolist() == [-1, -1]


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_have_the_oracle(backend, name, copied):
    model, data = made(backend, name, OTHERS[name][0])
    other, w = copied(model), np.abs(np.random.default_rng(0).normal(size=model.size))
    assert type(other) is type(model) and other.structure_type.__name__ == model.structure_type.__name__
    box = BCFW(0.1)
    assert other.oracle is not None and counterpart(box, backend.StructuralHinge(other, data)) is box
    for y, z in zip(other.predict(data, None, w), model.predict(data, None, w), strict=True):
        assert np.array_equal(y, z)
    space = model.structure_type.unchecked(model.scores(data, np.array([0]), w))
    assert float(copied(space).best()[0]) == float(space.best()[0])


@pytest.mark.parametrize("name", OTHERS)
def test_files_hold_no_oracle(backend, name, tmp_path):
    """Which is said, and nothing written; the same model without is what the message says."""
    model, data = made(backend, name, OTHERS[name][0])
    w = np.abs(np.random.default_rng(0).normal(size=model.size))
    said = rf"model: .* without an oracle.*; use {type(model).__name__}\(\*\*model.settings\(\)\)"
    with pytest.raises(TypeError, match=said):
        save_model(tmp_path / "m.npz", model, w)
    assert list(tmp_path.iterdir()) == []
    save_model(tmp_path / "m.npz", type(model)(**model.settings()), w)
    loaded, weights, _ = load_model(tmp_path / "m.npz", backend.module)
    assert loaded.oracle is None
    for y, z in zip(loaded.predict(data, None, weights), model.predict(data, None, w), strict=True):
        assert np.array_equal(y, z)
