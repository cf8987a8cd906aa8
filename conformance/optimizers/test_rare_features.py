"""Runs on models most of whose features do not occur: those of the reference, where weights of such features stay 0.
The fast panel leaves these weights out; nobody can tell from its results.
"""

from __future__ import annotations

import numpy as np
import pytest

import accelerated
import reference
from accelerated.training.narrow import Narrow, narrowed, occurring
from conformance.specimens.learners import LEARNERS, Way, loss_of, run, seeded, unit
from reference.training.counterparts import counterpart
from reference.training.smooth import LBFGS, Smooth

F = 30_000
RUNS = {"sgd": Way({}, "log loss"), "casimir_svrg_adapt": LEARNERS["casimir"].proof}
RUNS |= {name: each.proof for name, each in LEARNERS.items() if each.proof and name != "solve_sparse"}


def sequences(backend):
    """Eight sequences of up to five positions, three of 30,000 features each, and starts and stops."""
    rng = np.random.default_rng(3)
    X = [[rng.integers(0, F, 3).tolist() for _ in range(n)] for n in rng.integers(1, 6, 8)]
    X[0][0] = X[1][0]  # shared features
    model = backend.SequenceModel(F, 3)
    return model, model.pack(X, [rng.integers(0, 3, len(x)) for x in X])


def tagger(backend, transitions=None):
    """Hashed attributes, all pairs."""
    words = ["the", "old", "duck", "swims", "in", "rain", "and", "sings"]
    X = [{"word": words[i : i + 4]} for i in range(5)]
    Y = [y.split() for y in ("O B-A I-A O", "B-A I-A O O", "B-A O O B-B", "O O O O", "B-B I-B O O")]
    model = backend.TaggingModel.of(X, Y, ["bias", "word[-1..1]"], bits=17, pairs="all", transitions=transitions)
    return model, model.pack(X, Y)


def classes(backend):
    """Ten examples of four of 30,000 features."""
    rng = np.random.default_rng(5)
    model = backend.MulticlassModel(F, 4)
    return model, model.pack([rng.integers(0, F, 4).tolist() for _ in range(10)], rng.integers(0, 4, 10))


PROBLEMS = {"sequences": sequences, "tagger": tagger, "classes": classes}
PROBLEMS["tagger with forbidden transitions"] = lambda backend: tagger(backend, "bio")


def run_of(backend, name, problem, *w0, epochs=3, **options):
    """The loss and the result of a run; problem: of PROBLEMS, or a model and data."""
    loss = loss_of(backend, RUNS[name].loss, *(PROBLEMS[problem](backend) if isinstance(problem, str) else problem))
    return loss, run(backend, name, loss, *w0, **{unit(name): epochs, **seeded(name), **RUNS[name].options, **options})


def unused_of(loss):
    """Which weights (d,) belong to a feature that no example has."""
    rows, L = loss.data.rows, loss.model.n_labels
    unused = np.ones(rows.width, bool)
    unused[np.asarray(rows.indices)] = False
    return np.concatenate([np.repeat(unused, L), np.zeros(loss.model.size - rows.width * L, bool)])


@pytest.mark.parametrize("problem", list(PROBLEMS))
@pytest.mark.parametrize("name", list(RUNS))
def test_runs_are_those_of_the_reference(other, name, problem):
    if name == "multisample" and problem.startswith("tagger"):
        pytest.skip("outputs with equal scores: rounding decides which is sampled")
    loss, expected = run_of(reference, name, problem)
    _, result = run_of(other, name, problem)
    assert result.x.shape == (loss.model.size,) and not np.any(result.x[unused_of(loss)])
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-7, atol=1e-9)
    assert result.fun == pytest.approx(expected.fun, rel=1e-9)
    assert (result.nit, result.iterate, result.success) == (expected.nit, expected.iterate, expected.success)
    for row, other_row in zip(result.history, expected.history, strict=True):
        assert row.objective == pytest.approx(other_row.objective, rel=1e-9)
        assert row.oracle_calls == other_row.oracle_calls


@pytest.mark.parametrize("name", ["sgd", "svrg", "casimir", "lbfgs"])
def test_weights_of_absent_features_shrink(other, name):
    """From a start with weights of features that do not occur: the regulariser alone moves them."""
    loss = loss_of(reference, "log loss", *sequences(reference))
    unused = np.flatnonzero(unused_of(loss))
    w0 = np.zeros(loss.model.size)
    w0[unused[::1000]] = 1.0
    _, expected = run_of(reference, name, "sequences", w0)
    seen = []
    _, result = run_of(other, name, "sequences", w0, callback=lambda row, w: seen.append(w.copy()))
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-7, atol=1e-9)
    assert np.all(result.x[unused[::1000]] < 1.0) and not np.any(result.x[np.setdiff1d(unused, unused[::1000])])
    np.testing.assert_array_equal(seen[-1], result.x)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "casimir_svrg_adapt"])
def test_a_run_that_goes_on_is_one_run(other, name, tmp_path):
    """Of the reference, too, where the state has one form in both; the reference does not resume a run of fewer
    weights."""
    file, (_, whole) = tmp_path / "run.npz", run_of(other, name, "sequences", epochs=4)
    if name in ("sgd", "svrg", "casimir", "lbfgs", "cutting_planes"):
        run_of(reference, name, "sequences", epochs=2, checkpoint=file)
        _, result = run_of(other, name, "sequences", epochs=4, resume=file)
        np.testing.assert_allclose(result.x, whole.x, rtol=1e-7, atol=1e-9)
        assert [row.epoch for row in result.history] == [1, 2, 3, 4]
    run_of(other, name, "sequences", epochs=2, checkpoint=file)
    _, result = run_of(other, name, "sequences", epochs=4, resume=file)
    np.testing.assert_array_equal(result.x, whole.x)
    assert [row.objective for row in result.history] == [row.objective for row in whole.history]
    if other.__name__ == "accelerated":
        with pytest.raises(ValueError, match="of the panel accelerated in its own form: resume it there"):
            run_of(reference, name, "sequences", epochs=4, resume=file)


@pytest.mark.parametrize("name", [name for name in RUNS if name != "multisample"])  # where every output is a best one
def test_data_without_any_feature(other, name):
    """All losses are those of uniform scores: ln 4 for each of the examples, or a cost of 1."""
    models = [panel.MulticlassModel(F, 4) for panel in (reference, other)]
    made = [(model, model.pack([[], [], []], [0, 1, 3])) for model in models]
    (_, expected), (_, result) = run_of(reference, name, made[0], epochs=2), run_of(other, name, made[1], epochs=2)
    assert not np.any(result.x) and result.fun == pytest.approx(expected.fun, rel=1e-12)
    assert result.message == expected.message


@pytest.mark.parametrize("name", ["casimir", "casimir_svrg_adapt"])
def test_an_interrupt_before_the_first_state(other, name, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    for oracle in ("value", "value_and_gradient", "linearize"):
        monkeypatch.setattr(other.StructuralHinge, oracle, stop)
    _, result = run_of(other, name, "sequences")
    assert result.interrupted and "interrupted after 0 of 3 epochs" in result.message and not np.any(result.x)


def test_a_pass_of_the_user_sees_all_weights(other):
    shapes = set()

    def one_pass(problem, snapshot, order, step_size, memory):
        shapes.add(snapshot.x.shape)
        return snapshot.x - step_size * problem.gradient(snapshot), len(order), None

    loss, _ = run_of(other, "casimir", "sequences", epochs=2, inner=one_pass)
    assert shapes == {(loss.model.size,)}


def test_what_is_narrowed():
    """Solvers over many weights of which at most half belong to features that occur; a run has the others alone."""
    solver = Smooth(LBFGS(0.1, None, 10))
    for problem in PROBLEMS:
        loss = loss_of(accelerated, "log loss", *PROBLEMS[problem](accelerated))
        assert isinstance(counterpart(solver, loss), Narrow)
        rows = np.flatnonzero(occurring(loss))
        smaller = narrowed(loss, rows)
        assert smaller.data.rows.width == len(rows) < loss.data.rows.width / 2
        assert smaller.model.size == loss.model.size - np.sum(unused_of(loss))
    few, most = accelerated.SequenceModel(40, 3), accelerated.MulticlassModel(F, 4)
    tagger = accelerated.TaggingModel.of([{"word": ["a"]}], [["x"]], ["word"], bits=20)  # has those that occur already
    for model, X, Y in (
        (few, [[[0], [1]]], [[0, 1]]),
        (most, [range(F // 2 + 1)], [0]),
        (tagger, [{"word": ["a"]}], [["x"]]),
    ):
        assert counterpart(solver, accelerated.LogLoss(model, model.pack(X, Y))) is solver
