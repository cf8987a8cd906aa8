"""Labels that are partly known, by enumeration: losses, gradients, predictions, K best, marginals; who refuses them."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.specimens.models import MODELS
from conformance.specimens.outputs import log_sum_exp
from conformance.specimens.pages import check_refusals
from conformance.tolerances import close
from reference.arrays import host

NAMES = [name for name in MODELS if name in ("sequences", "trees") or name.startswith("tags")]
seeds = given(seed=st.integers(0, 2**32 - 1))
every_model = pytest.mark.parametrize("name", NAMES)


def drawn(name, seed, backend, like=None, known=True):
    """A problem, its partly known labels and allowed outputs, the model, and the data with those labels."""
    problem = MODELS[name].draw(seed)
    Y, allowed = problem.partly(np.random.default_rng(seed))
    model = problem.make(backend)
    return problem, Y, allowed, model, model.pack(problem.X, Y if known else None, like=like)


@every_model
@seeds
def test_losses_are_sums_over_all_outputs_less_those_over_allowed_ones(backend, space, name, seed):
    problem, _, allowed, model, data = drawn(name, seed, backend, space.put(0.0))
    objective, w = backend.LogLoss(model, data), problem.weights(backend, 5).astype(space.dtype)
    values, slopes = [], []
    for (_, phi, *_), kept in zip(problem.listed, allowed, strict=True):
        (every, u), (some, v) = (log_sum_exp(x @ w.astype(np.float64), 1.0) for x in (phi, phi[kept]))
        values.append(every - some)
        slopes.append(u @ phi - v @ phi[kept])
    batch = np.random.default_rng(seed).integers(0, data.n, 3)
    for some in (None, batch):
        here = np.arange(data.n) if some is None else batch
        value, gradient = objective.value_and_gradient(space.put(w), some)
        space.again(objective.value(space.put(w), some), value)
        close(value, np.mean([values[i] for i in here]), space.dtype, 10.0)
        close(space.get(gradient), np.mean([slopes[i] for i in here], axis=0), space.dtype, 10.0)
        assert space.get(gradient).dtype == space.dtype
        plane = objective.linearize(space.put(w), some)
        assert (plane.task_loss, plane.exact) == (0.0, 1.0)
        space.again(plane.value, value)
        space.again(space.get(plane.gradient), space.get(gradient))


@every_model
@seeds
def test_probabilities_of_completions_add_up(backend, name, seed):
    problem, _, allowed, model, data = drawn(name, seed, backend)
    w, objective = problem.weights(backend, 5), backend.LogLoss(model, data)
    for i, (listed, kept) in enumerate(zip(problem.listed, allowed, strict=True)):
        completions = [list(y) for y, k in zip(listed.outputs, kept, strict=True) if k]
        each = backend.LogLoss(model, model.pack([problem.X[i]] * len(completions), completions))
        total = sum(np.exp(-each.value_and_gradient(w, [k])[0]) for k in range(len(completions)))
        close(np.exp(-objective.value_and_gradient(w, [i])[0]), total)


@every_model
@seeds
def test_known_labels_as_sets_are_labels_bit_for_bit(backend, name, seed):
    problem = MODELS[name].draw(seed)
    model, data = problem.packed(backend)
    same = model.pack(problem.X, [[{label} for label in y] for y in problem.Y])
    assert same.allowed is None and np.array_equal(same.labels, data.labels)
    w = problem.weights(backend, 5)
    for a, b in zip(*(backend.LogLoss(model, x).value_and_gradient(w) for x in (data, same)), strict=True):
        assert np.array_equal(a, b)


@every_model
@seeds
def test_nothing_known_is_nothing_to_learn(backend, space, name, seed):
    problem = MODELS[name].draw(seed)
    model = problem.make(backend)
    data = model.pack(problem.X, [[None] * len(y) for y in problem.Y], like=space.put(0.0))
    value, gradient = backend.LogLoss(model, data).value_and_gradient(space.put(problem.weights(backend, 5)))
    assert (data.allowed is None) == (model.n_labels == 1 or data.rows.n == 0)
    if data.allowed is not None:
        assert value == 0.0 and not np.any(space.get(gradient))


@every_model
@seeds
def test_predictions_k_best_and_marginals_are_those_of_allowed_outputs(backend, name, seed):
    """Predictions attain the highest score; ties may go to any output."""
    problem, Y, allowed, model, data = drawn(name, seed, backend, known=seed % 2 == 0)
    w = problem.weights(backend, 5)
    predicted, known = model.predict(data, None, w, known=Y), model.constrained(data, Y)
    assert [y.tolist() for y in model.predict(data, [0, 0], w, known=Y)] == [predicted[0].tolist()] * 2
    for i, ((outputs, phi, *_), kept) in enumerate(zip(problem.listed, allowed, strict=True)):
        scores = np.where(kept, phi @ w, -np.inf)
        close(scores[outputs.index(tuple(predicted[i].tolist()))], np.max(scores))
        piece = np.array([i])
        space = model.structure_type.unchecked(model.within(known, piece, model.scores(data, piece, w)))
        best = space.topk(3)
        found = np.ravel(host(best.scores))
        order = np.sort(scores)[::-1][:3]
        close(found[: len(order)], order)
        assert int(np.sum(host(best.count))) == min(3, np.count_nonzero(kept))
        _, u = log_sum_exp(scores, 1.0)
        marginals = host(space.expectation()[1].unary).reshape(-1, model.n_labels)
        for t, label in itertools.product(range(len(marginals)), range(model.n_labels)):
            close(marginals[t, label], sum(p for p, y in zip(u, outputs, strict=True) if y[t] == label))


@pytest.mark.parametrize("name", ["sequences", "trees", "tags {'transitions': 'bio'}"])
def test_runs_descend_and_have_no_certificate(backend, name):
    problem = MODELS[name].training(7)
    Y, _ = problem.partly(np.random.default_rng(3))
    model = problem.make(backend)
    data = pickle.loads(pickle.dumps(model.pack(problem.X, Y)))
    objective = backend.LogLoss(model, data)
    result = backend.lbfgs(objective, lam=0.1, tol=1e-7, iterations=500)
    unknown = objective.unknown
    assert result.success and unknown > 0
    assert (
        result.certificate == f"none: the objective is not convex, as the labels of {unknown} positions are not known"
    )
    assert "not certified: the objective is not convex" in result.message
    start = objective.value_and_gradient(objective.zeros())[0]
    assert backend.sgd(objective, lam=0.1, rng=0).fun < start
    twice = backend.LogLoss(model, model.pack([*problem.X, problem.X[0]], [*Y, Y[0]]))
    weighted = backend.Weighted(objective, [2.0] + 6 * [1.0])
    w = problem.weights(backend, 1)
    for a, b in zip(weighted.value_and_gradient(w), twice.value_and_gradient(w), strict=True):
        close(a, b)


def test_observed_pairs_of_partly_known_labels(backend):
    X = [{"word": ["a", "b", "a"]}, {"word": ["b", "c"]}]
    model = backend.TaggingModel.of(X, [["N", {"N", "V"}, None], [None, "X"]], ["word"])
    assert model.labels == ("N", "V", "X") and model.vocabulary == ("word[0]=a", "word[0]=b", "word[0]=c")
    assert model.pairs.tolist() == [0, 3, 4, 8]  # a-N, b-N, b-V, c-X; None names none
    assert model.label_pairs.tolist() == list(range(9))
    whole = backend.TaggingModel.of(X, [["N", {"V"}, "N"], ["N", "X"]], ["word"])
    same = backend.TaggingModel.of(X, [["N", "V", "N"], ["N", "X"]], ["word"])
    assert whole.settings() == same.settings()


def test_who_needs_every_label_says_so(backend):
    model = backend.SequenceModel(1, ["a", "b"])
    data = model.pack([np.ones((3, 1))], [["a", None, {"a", "b"}]])
    objective = backend.LogLoss(model, data)
    bio = backend.TaggingModel(["O", "B-X", "I-X"], "words", bits=5, transitions="bio")
    names = {"b": backend, "model": model, "data": data, "F": objective, "np": np, "bio": bio}
    check_refusals("wrong_partial.txt", {**names, "words": [{"word": ["a"] * 3}] * 2})
