"""Runs on models of which most features do not occur: those of the reference, where weights of such features stay 0.

The fast panel leaves these weights out of the run; nobody can tell from its results.
"""

from __future__ import annotations

import numpy as np
import pytest

import accelerated
import reference
import reference.training.casimir
from conformance.optimizers.table import unit
from reference.training.counterparts import counterpart

LAM, F = 0.1, 30_000
RUNS = {
    "sgd": {"step_size": None},
    "svrg": {},
    "casimir": {},
    "casimir_svrg_adapt": {},
    "lbfgs": {"tol": 1e-12},
    "bcfw": {"tol": None},
    "exponentiated_gradient": {"tol": None},
    "multisample": {"tol": None, "k": 2},
    "cutting_planes": {"tol": None},
}
LOSSES = {
    "sgd": "log loss",
    "svrg": "log loss",
    "lbfgs": "log loss",
    "exponentiated_gradient": "log loss",
    "casimir": "entropy",
}
LOSSES["casimir_svrg_adapt"] = "entropy"


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
    Y = ["O B-A I-A O", "B-A I-A O O", "B-A O O B-B", "O O O O", "B-B I-B O O"]
    Y = [y.split() for y in Y]
    model = backend.TaggingModel.of(X, Y, ["bias", "word[-1..1]"], bits=17, pairs="all", transitions=transitions)
    return model, model.pack(X, Y)


def classes(backend):
    """Ten examples of four of 30,000 features."""
    rng = np.random.default_rng(5)
    model = backend.MulticlassModel(F, 4)
    return model, model.pack([rng.integers(0, F, 4).tolist() for _ in range(10)], rng.integers(0, 4, 10))


PROBLEMS = {
    "sequences": sequences,
    "tagger": tagger,
    "tagger with forbidden transitions": lambda backend: tagger(backend, "bio"),
    "classes": classes,
}


def loss_of(backend, problem, kind):
    model, data = PROBLEMS[problem](backend)
    if kind == "log loss":
        return backend.LogLoss(model, data)
    return backend.StructuralHinge(
        model, data, smoothing=backend.smoothings.Entropy() if kind == "entropy" else backend.smoothings.Max()
    )


def run_of(backend, name, problem, *w0, epochs=3, **options):
    loss = loss_of(backend, problem, LOSSES.get(name, "hinge"))
    seed = {} if name in ("lbfgs", "cutting_planes") else {"rng": 0}
    result = getattr(backend, name)(loss, *w0, lam=LAM, **{unit(name): epochs}, **RUNS[name], **seed, **options)
    return loss, result


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
    loss = loss_of(reference, "sequences", "log loss")
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
def test_a_run_cut_in_two_is_one_run(other, name, tmp_path):
    _, whole = run_of(other, name, "sequences", epochs=4)
    run_of(other, name, "sequences", epochs=2, checkpoint=tmp_path / "run.npz")
    _, result = run_of(other, name, "sequences", epochs=4, resume=tmp_path / "run.npz")
    np.testing.assert_array_equal(result.x, whole.x)
    assert [row.objective for row in result.history] == [row.objective for row in whole.history]


@pytest.mark.parametrize("name", [name for name in RUNS if name != "casimir_svrg_adapt"])
def test_the_reference_does_not_resume_a_narrow_run(name, tmp_path):
    run_of(accelerated, name, "sequences", epochs=2, checkpoint=tmp_path / "run.npz")
    with pytest.raises(ValueError, match="of the panel accelerated in its own form: resume it there"):
        run_of(reference, name, "sequences", epochs=4, resume=tmp_path / "run.npz")


@pytest.mark.parametrize("name", ["sgd", "svrg", "casimir", "lbfgs", "cutting_planes"])
def test_a_run_of_the_reference_goes_on(other, name, tmp_path):
    _, whole = run_of(reference, name, "sequences", epochs=4)
    run_of(reference, name, "sequences", epochs=2, checkpoint=tmp_path / "run.npz")
    _, result = run_of(other, name, "sequences", epochs=4, resume=tmp_path / "run.npz")
    np.testing.assert_allclose(result.x, whole.x, rtol=1e-7, atol=1e-9)
    assert [row.epoch for row in result.history] == [row.epoch for row in whole.history]


@pytest.mark.parametrize("name", list(RUNS))
def test_data_without_any_feature(other, name):
    """All losses are those of uniform scores: ln 4 for each of the examples, or a cost of 1."""

    def run(backend):
        model = backend.MulticlassModel(F, 4)
        data = model.pack([[], [], []], [0, 1, 3])
        kind = LOSSES.get(name, "hinge")
        smoothing = backend.smoothings.Entropy() if kind == "entropy" else backend.smoothings.Max()
        loss = (
            backend.LogLoss(model, data)
            if kind == "log loss"
            else backend.StructuralHinge(model, data, smoothing=smoothing)
        )
        seed = {} if name in ("lbfgs", "cutting_planes") else {"rng": 0}
        return getattr(backend, name)(loss, lam=LAM, **{unit(name): 2}, **RUNS[name], **seed)

    if name in ("exponentiated_gradient", "multisample"):
        pytest.skip("needs sequences" if name == "exponentiated_gradient" else "every output is a best one")
    expected, result = run(reference), run(other)
    assert not np.any(result.x) and result.fun == pytest.approx(expected.fun, rel=1e-12)
    assert result.message == expected.message


@pytest.mark.parametrize("name", ["casimir", "casimir_svrg_adapt"])
def test_an_interrupt_before_the_first_state(other, name, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(reference.training.casimir.CasimirRun, "init", stop)
    _, result = run_of(other, name, "sequences")
    assert result.interrupted and "interrupted after 0 of 3 epochs" in result.message and not np.any(result.x)


def test_a_pass_of_the_user_sees_all_weights(other):
    sizes = set()

    def one_pass(problem, snapshot, order, step_size, memory):
        sizes.add(snapshot.x.shape)
        return snapshot.x - step_size * problem.gradient(snapshot), len(order), None

    loss = loss_of(other, "sequences", "entropy")
    other.casimir(loss, lam=LAM, epochs=2, rng=0, inner=one_pass)
    assert sizes == {(loss.model.size,)}


def test_what_is_narrowed():
    """Solvers over many weights of which at most half belong to features that occur; a run has the others alone."""
    import accelerated
    from accelerated.training.narrow import Narrow, narrowed, occurring
    from reference.training.lbfgs import LBFGS, Smooth

    solver = Smooth(LBFGS(LAM, None, 10))
    for problem in PROBLEMS:
        loss = loss_of(accelerated, problem, "log loss")
        assert isinstance(counterpart(solver, loss), Narrow)
        rows = np.flatnonzero(occurring(loss))
        smaller = narrowed(loss, rows)
        assert smaller.data.rows.width == len(rows) < loss.data.rows.width / 2
        assert smaller.model.size == loss.model.size - np.sum(unused_of(loss))
    model = accelerated.SequenceModel(40, 3)  # few weights
    data = model.pack([[[0], [1]]], [[0, 1]])
    assert type(counterpart(solver, accelerated.LogLoss(model, data))) is Smooth
    model = accelerated.MulticlassModel(F, 4)  # most features occur
    data = model.pack([list(range(F // 2 + 1))], [0])
    assert type(counterpart(solver, accelerated.LogLoss(model, data))) is Smooth
    restricted = accelerated.TaggingModel.of([{"word": ["a"]}], [["x"]], ["word"], bits=20)
    assert (
        type(counterpart(solver, accelerated.LogLoss(restricted, restricted.pack([{"word": ["a"]}], [["x"]]))))
        is Smooth
    )
