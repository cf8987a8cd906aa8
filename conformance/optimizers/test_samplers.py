"""Multi-sample updates from a sampler of the user's own: what is promised of any sampler, and what of one that lists
everything. Epochs however a panel makes them, against the reference's visits from one state.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import reference
from conformance.golden.problems import Problems
from conformance.listed_svm import hinge, labelling, listed
from conformance.specimens.learners import options_of_box
from conformance.tolerances import close
from reference.optimizers.multisample import Multisample
from reference.training.counterparts import counterpart


def everything(i, space, size, rng):
    """Every output."""
    return list(space.enumerate())


def anything(i, space, size, rng):
    """Some of the outputs, none now and then, one of them twice."""
    outputs = list(space.enumerate())
    return [outputs[j] for j in rng.integers(0, len(outputs), rng.integers(0, size + 1))]


def worst(i, space, size, rng):
    """The outputs of lowest score: no help at all."""
    return sorted(space.enumerate(), key=lambda y: float(space.score(np.array(y, int))))[:size]


def models(backend):
    """Chains, trees, classes, lists and dependency trees: an objective each."""
    return [Problems(backend).objective(f"{name}/hinge") for name in ("chain", "trees", "classes", "listed", "parsing")]


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("sampler", [anything, worst])
@pytest.mark.parametrize("update", ["moves", "exact"])
def test_with_any_sampler_the_dual_rises_and_the_gap_holds(backend, rng, sampler, update):
    for objective in models(backend):
        run = backend.multisample(objective, lam=0.1, k=4, sampler=sampler, update=update, epochs=12, tol=None, rng=0)
        best = backend.bcfw(objective, lam=0.1, epochs=400, tol=1e-3, rng=0)
        duals = [row.dual for row in run.history]
        assert np.all(np.diff(duals) >= -1e-12) and duals[-1] > duals[0]
        close(run.fun, objective.value_and_gradient(run.x)[0] + 0.05 * run.x @ run.x)
        assert duals[-1] <= best.fun + 1e-9 and run.fun - run.certificate <= best.fun + 1e-9
        assert best.fun - best.certificate <= run.fun + 1e-9


def test_a_sampler_of_everything_makes_the_exact_step(backend, rng):
    """One example, all its outputs: after one exact step the weights are those of the maximum of its dual, by
    enumeration."""
    X, Y = labelling(rng, (3,))
    problem = listed(X, Y, 3, 0.2)
    result = backend.multisample(
        hinge(backend, X, Y), lam=0.2, k=28, sampler=everything, update="exact", epochs=1, tol=None
    )
    assert result.oracle_calls == 1 and abs(result.certificate) <= 1e-8  # the optimum, in one step
    close(result.fun, problem.primal(result.x))


def best(i, space, size, rng):
    """The best outputs but the first, which a visit has already."""
    found = space.topk(size + 1)
    return found.labels[1 : int(found.count)]


def draws(i, space, size, rng):
    return space.sample(size, 0.7, rng)


@pytest.mark.parametrize("update", ["moves", "exact"])
@pytest.mark.parametrize(("sampler", "name", "scale"), [(best, "topk", 1.0), (draws, "gibbs", 100.0)])
def test_samplers_that_do_what_a_named_one_does(backend, sampler, name, scale, update):
    for objective in models(backend)[: 1 if name == "topk" else 4]:
        options = {"lam": 0.1, "k": 4, "mu": 0.7, "update": update, "epochs": 3, "tol": None, "rng": 0}
        ours, theirs = (backend.multisample(objective, sampler=each, **options) for each in (sampler, name))
        close(ours.x, theirs.x, scale=scale)
        close([row.dual for row in ours.history], [row.dual for row in theirs.history], scale=scale)


def test_the_space_has_the_loss_in_it(backend, rng):
    """score(y) is loss_i(y) + <w, phi(x_i, y)>, for the weights of the call; k - 1 outputs are asked for."""
    X, Y = labelling(rng, (2, 3))
    objective, seen = hinge(backend, X, Y), []
    problem, w = listed(X, Y, 3, 0.1), rng.normal(size=objective.model.size)

    def check(i, space, size, rng):
        seen.append((i, size))
        outputs = list(itertools.product(range(3), repeat=len(Y[i])))
        scores = np.array([float(space.score(np.array(y))) for y in outputs])
        true = scores[outputs.index(tuple(int(label) for label in Y[i]))]
        close(np.sort(scores - true), np.sort(problem.loss[i] + problem.V[i] @ w))
        return outputs[:1]

    assert np.all(objective.sampled_corners(w, None, 2, sampler=check).count <= 2) and seen == [(0, 1), (1, 1)]
    drawn = objective.sampled_corners(w, None, 6, 0.5, rng=2)
    for V, losses, count, every in zip(drawn.directions, drawn.losses, drawn.count, problem.V, strict=True):
        assert 1 <= count <= 6 and np.all(losses[count:] == -np.inf) and not np.any(V[count:])
        places = [int(np.argmin(np.sum(np.abs(every - v), axis=1))) for v in V[:count]]
        close(V[:count], every[places])
        assert len(set(places)) == count  # each output once


def test_samplers_in_every_namespace(backend, space, rng):
    X, Y = labelling(rng, (2, 3), F=2, L=2)
    model = backend.SequenceModel(2, 2)
    objective = backend.StructuralHinge(model, model.pack(X, Y, like=space.put(0.0)))
    result = backend.multisample(objective, lam=0.3, k=9, sampler=everything, update="exact", epochs=30, tol=1e-2)
    assert space.get(result.x).dtype == space.dtype and result.success


@pytest.mark.parametrize(
    ("proposed", "error", "message"),
    [
        (lambda y: 3, TypeError, "sampler: expected a list of outputs of example 0, got int"),
        (lambda y: [y] * 4, ValueError, "sampler: expected at most 3 outputs of example 0, got 4"),
        (lambda y: [y, [0, 3]], ValueError, r"sampler: output 1 of example 0: y: expected labels in 0..2"),
        (
            lambda y: [[0]],
            ValueError,
            r"sampler: output 0 of example 0: y: expected labels of shape \(2,\), got \(1,\)",
        ),
        (lambda y: [[0.0, 1.0]], TypeError, "sampler: output 0 of example 0: y: expected integers, got float64"),
        (lambda y: [[-1, -1]], ValueError, "sampler: output 0 of example 0: expected a state of each variable, got"),
    ],
)
def test_proposals_are_checked(backend, rng, proposed, error, message):
    X, Y = labelling(rng, (2,))
    with pytest.raises(error, match=message):
        backend.multisample(
            hinge(backend, X, Y), lam=0.1, k=4, sampler=lambda i, space, size, rng: proposed(Y[0]), rng=0
        )


def test_forbidden_proposals_are_refused(backend):
    model = backend.ListModel(
        lambda x: np.zeros((6, 1)),
        backend.Arborescence,
        task_loss=lambda x, y: np.zeros(6),
        size=1,
        shape=lambda x, v: backend.ArborescenceScores(np.where([[1, 1, 1], [0, 1, 1]], v.reshape(2, 3), -np.inf)),
    )
    objective = backend.StructuralHinge(model, model.pack([0], [[0, 1]]))
    with pytest.raises(ValueError, match=r"sampler: output 0 of example 0: expected an output that is not forbidden"):
        objective.sampled_corners(np.zeros(1), None, 2, sampler=lambda i, space, size, rng: [[0, 0]])


def test_one_output_needs_nothing_but_the_best(backend):
    """A structure of the user's with best and parts; more outputs need topk, or sample."""

    class Two(backend.Structure):
        def best(self):
            return float(self.scores.max()), int(self.scores.argmax())

        def parts(self, y):
            return np.eye(2)[y]

    model = backend.ListModel(lambda x: np.eye(2) * x, Two, task_loss=lambda x, y: 1.0 - np.eye(2)[y], size=2)
    objective = backend.StructuralHinge(model, model.pack([1.0, 2.0], [0, 1]))
    assert backend.multisample(objective, lam=0.1, k=1, rng=0).success
    for sampler, method in (("topk", "topk"), ("gibbs", "sample")):
        with pytest.raises(backend.UnsupportedError, match=rf"Two does not implement {method}\(\)"):
            backend.multisample(objective, lam=0.1, k=2, sampler=sampler)


LENGTHS = (5, 1, 6, 0, 4, 3, 2, 7)


def sequences(panel, seed, kind):
    """Labelled sequences, one of them empty: of real features, of integers that tie, or of attributes of a tagger."""
    rng, integer = np.random.default_rng(seed), kind == "integers"
    X = [rng.integers(-1, 2, (n, 3)).astype(float) if integer else rng.normal(size=(n, 3)) for n in LENGTHS]
    Y = [rng.integers(0, 4, n) for n in LENGTHS]
    if kind != "tags":
        return hinge(panel, X, Y, L=4)
    X = [[{f"a{f}": value for f, value in enumerate(position)} for position in x.tolist()] for x in X]
    model = panel.TaggingModel(list("abcd"), None, bits=6)
    return panel.StructuralHinge(model, model.pack(X, [["abcd"[label] for label in y] for y in Y]))


def same_state(found, expected):
    """Weights, their mean, losses, and what is kept of each block."""
    for name in ("x", "mean", "loss", "weights", "best"):
        close(getattr(found, name), getattr(expected, name), scale=100.0)
    assert (found.t, found.blocks, len(found.mixtures)) == (expected.t, expected.blocks, len(expected.mixtures))
    assert -1 not in found.mixtures
    for i in expected.mixtures:
        close(found.mixtures[i].direction, expected.mixtures[i].direction, scale=100.0)


@pytest.mark.parametrize("kind", ["numbers", "integers", "tags"])
@pytest.mark.parametrize("options", options_of_box("multisample"), ids=lambda each: "-".join(map(str, each.values())))
def test_an_epoch_is_its_visits(other, rng, options, kind):
    """From one state by the same draws, in one form of the blocks, in the other, or in turn. Ties are exact in the
    first epoch; later, rounding decides which of two tied outputs moves first.
    """
    for lam in (0.02, 0.5):
        seed, box = int(rng.integers(2**31)), Multisample(lam, **options)
        ours, theirs = (sequences(panel, seed, kind) for panel in (reference, other))
        steps, ends = [(box, ours), (counterpart(box, theirs), theirs)], []
        for turns in [(0,), (1,)] if kind == "integers" else [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 0, 1), (1, 0, 1, 1)]:
            draws, state = np.random.default_rng(2), box.init(ours)
            for turn in turns:
                which, objective = steps[turn]
                state = which.epoch(objective, state, draws)
            ends.append((state, draws.random()))
        for end, number in ends[1:]:
            same_state(end, ends[0][0])
            assert number == ends[0][1] and len(end.mixtures) == (0 if box.online else len(LENGTHS))


def test_a_state_is_not_changed(other):
    """Two epochs from one state by the same numbers are equal bit for bit, and so is one from what a mapping says of
    it.
    """
    theirs = sequences(other, 0, "numbers")
    fast = counterpart(Multisample(0.05, 3), theirs)
    state = fast.epoch(theirs, fast.init(theirs), np.random.default_rng(0))
    first, again, listed = (
        fast.epoch(theirs, start, np.random.default_rng(1))
        for start in (state, state, state._replace(mixtures=dict(state.mixtures)))
    )
    for one in (again, listed):
        assert np.array_equal(first.x, one.x) and np.array_equal(first.mean, one.mean)
        assert np.array_equal(first.weights, one.weights) and first.loss == one.loss
        for i in first.mixtures:
            assert np.array_equal(first.mixtures[i].direction, one.mixtures[i].direction)
